/* Interval-wise dropout and its backward gate on a CPU: one pass, one random stream, plain C without Python or torch.

   The file includes itself: part 1 holds what every instruction set shares and includes part 2 once per level
   (baseline, x86-64-v3, x86-64-v4), which includes part 3 once per element width (16, 32, 64 bits). Vectors are GCC
   vector extensions, so a level differs in vector length and instructions, never in what it computes.

   The random stream. Elements come in blocks of 8192; block b of a call has its own 16 lanes of xoshiro128++, seeded by
   Philox4x32-10 with the call's seed as key and (b, lane) as counter, so that any thread can start at any block. A
   block is 16 groups of 512 elements, one random bit each per draw of the 16 lanes. A group compares a uniform U with
   the rate most significant bit first, a draw per bit, until the rate has no bit left or, asked from the 7th draw on, no
   element is undecided: about 10 draws a group, and the rate holds to 64 binary places. In a group, row r (elements
   r * n .. r * n + n - 1, n = 512 / width) owns bit r, counted from the top, of the mask read as n lanes of the
   element's width: shifting the mask by r puts that bit on top of its own element's lane, where a sign test finds it. */

#if !defined LEVEL /* ------------------------------------------------- part 1: what every instruction set shares */

#include <math.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)

enum { BLOCK = 8192, GROUP = 512, LANES = 16, MOST_INTERVALS = 64 };
enum { SURE = 7 }; /* draws after which a group of 512 is decided in 2 of 100 cases: no use to test before */
enum { FLOAT32, FLOAT64, BFLOAT16, FLOAT16 };
enum { FLIP, SELECT, GENERAL }; /* see kind_of() */

typedef struct {
    int dtype, kind, scaled, count;
    double scale;
    double at_zero; /* the slope at 0: if it is not 0, the output of 0 is -0, and all other zeros are +0 */
    int64_t nan_above;              /* the bits of infinity: a magnitude above it is NaN */
    uint64_t rates[MOST_INTERVALS]; /* drop rates in units of 2^-64 */
    char certain[MOST_INTERVALS];   /* whether the rate is 1, which has no such unit */
    int64_t edges[MOST_INTERVALS];  /* as keys */
} Law;

typedef struct {
    char *out;
    const char *x, *y; /* x is the gradient when y, the forward's output, is there */
    int64_t num_elements;
    int broadcast; /* the gradient is one element for all */
    uint64_t seed;
    const Law *law;
} Job;

static int width_of(int dtype) {
    return dtype == FLOAT64 ? 8 : dtype == FLOAT32 ? 4 : 2;
}

/* A key is a float as an integer of the same order: its bits, or for a negative float minus the bits of its magnitude,
   so that both zeros are 0. Comparing keys compares floats, in every dtype with integers alone. */
static int64_t infinity_key(int dtype) {
    return dtype == FLOAT64 ? INT64_C(0x7ff0000000000000)
           : dtype == FLOAT32 ? 0x7f800000
           : dtype == BFLOAT16 ? 0x7f80
                               : 0x7c00;
}

/* FLIP: two intervals at zero, dropped at rates that sum to 1 (AID): one comparison U < rate serves both signs, the
   negatives dropped where it holds and the others where it does not. SELECT: two intervals at zero with one rate apart
   from 0 and 1 (DropReLU, Dropout after ReLU, Dropout). Both call +0 negative, which shows only if the scale turns a
   kept +0 into another zero than a dropped one. GENERAL: anything, at the price of one mask and one comparison more per
   interval. */
static int kind_of(const int64_t *edges, const double *rates, int count, double scale) {
    if (count != 2 || edges[0] != 0 || !(scale > 0)) {
        return GENERAL;
    }
    if (rates[0] > 0 && rates[0] < 1 && rates[0] + rates[1] == 1 && scale == 1) {
        return FLIP;
    }
    int open = (rates[0] > 0 && rates[0] < 1) + (rates[1] > 0 && rates[1] < 1);
    return open < 2 || rates[0] == rates[1] ? SELECT : GENERAL;
}

#define LEVEL base
#define TARGET
#define VECTOR 16
#include "cpu.c"

#if defined __x86_64__ && (defined __GNUC__ || defined __clang__)
#define X86_LEVELS
/* The features of the level that pay here, by name, since older compilers know no arch=x86-64-v3 in an attribute. Not
   fma: a contracted product would round otherwise than the baseline's. */
#define LEVEL v3
#define TARGET __attribute__((target("avx2,bmi,bmi2")))
#define VECTOR 32
#include "cpu.c"

#define LEVEL v4
#define TARGET __attribute__((target("avx2,bmi,bmi2,avx512f,avx512bw,avx512dq,avx512vl")))
#define VECTOR 64
#include "cpu.c"
#endif

#include "pool.h"

static const struct {
    const char *name;
    Body drop, gate;
} levels[] = {
    {"baseline", drop_base, gate_base},
#ifdef X86_LEVELS
    {"x86-64-v3", drop_v3, gate_v3},
    {"x86-64-v4", drop_v4, gate_v4},
#endif
};

static int best_level(void) {
#ifdef X86_LEVELS
    __builtin_cpu_init();
    int v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    int v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return v3 + v4;
#else
    return 0;
#endif
}

static int level = 0; /* the baseline, which every CPU runs, until another is chosen */

/* The functions of torch's own OpenMP library, handed over at load: linking another one would start a second pool of
   threads that fights the first for the cores. */
static struct {
    void (*parallel)(void (*body)(void *), void *data, unsigned num_threads, unsigned flags);
    int (*thread)(void);
    int (*num_threads)(void);
} pool;

typedef struct {
    Body body;
    const void *job;
    int64_t num_items;
} Share;

static void run_share(void *data) {
    const Share *share = data;
    int64_t items = share->num_items, threads = pool.num_threads(), thread = pool.thread();
    share->body(share->job, items * thread / threads, items * (thread + 1) / threads);
}

void supple_run(Body body, const void *job, int64_t num_items, int64_t num_elements, int num_threads) {
    /* torch gives a thread 32768 elements at least (at::internal::GRAIN_SIZE); more threads for less is slower. */
    int64_t most = (num_elements + 32767) / 32768;
    if (most < num_threads) {
        num_threads = (int)most;
    }
    if (num_threads > 1 && pool.parallel) {
        Share share = {body, job, num_items};
        pool.parallel(run_share, &share, (unsigned)num_threads, 0);
    } else {
        body(job, 0, num_items);
    }
}

static void run(Body body, Job *job, int num_threads) {
    supple_run(body, job, (job->num_elements + BLOCK - 1) / BLOCK, job->num_elements, num_threads);
}

EXPORT const char *supple_source(void) {
    return SUPPLE_SOURCE;
}

EXPORT int supple_most_intervals(void) {
    return MOST_INTERVALS;
}

EXPORT int supple_best_level(void) {
    return best_level();
}

EXPORT const char *supple_level_name(int index) {
    return levels[index].name;
}

EXPORT void supple_use_level(int index) {
    level = index;
}

EXPORT void supple_use_pool(void *parallel, void *thread, void *num_threads) {
    memcpy(&pool.parallel, &parallel, sizeof parallel);
    memcpy(&pool.thread, &thread, sizeof thread);
    memcpy(&pool.num_threads, &num_threads, sizeof num_threads);
}

EXPORT int supple_law_size(void) {
    return sizeof(Law);
}

/* count rates, and count - 1 edges as keys. */
EXPORT void supple_prepare(Law *law, int dtype, const int64_t *edges, const double *rates, int count, double scale,
                           double at_zero) {
    law->kind = kind_of(edges, rates, count, scale);
    law->dtype = dtype;
    law->count = count;
    law->scale = scale;
    law->scaled = scale != 1;
    law->at_zero = at_zero;
    law->nan_above = infinity_key(dtype);
    for (int j = 0; j < count; j++) {
        law->certain[j] = rates[j] >= 1;
        law->rates[j] = rates[j] >= 1 ? 0 : (uint64_t)ldexp(rates[j], 64);
        law->edges[j] = j + 1 < count ? edges[j] : 0;
    }
}

/* out = x * scale or 0, drawn by the law; out may be x. */
EXPORT void supple_drop(void *out, const void *x, int64_t num_elements, const Law *law, const uint64_t *seed,
                        int num_threads) {
    Job job = {.out = out, .x = x, .num_elements = num_elements, .law = law, .seed = *seed};
    run(levels[level].drop, &job, num_threads);
}

/* out = grad * scale where y is not 0, grad * at_zero where it is -0, with the scales and dtype of the law; broadcast:
   grad is a single element. */
EXPORT void supple_gate(void *out, const void *grad, const void *y, int64_t num_elements, const Law *law, int broadcast,
                        int num_threads) {
    Job job = {.out = out, .x = grad, .y = y, .num_elements = num_elements, .broadcast = broadcast, .law = law};
    run(levels[level].gate, &job, num_threads);
}

#elif !defined WIDTH /* ----------------------------------------- part 2: one instruction set level: random masks */

#define NAME(name) JOIN(name, LEVEL)
#define PARTS (64 / VECTOR) /* vectors in 16 lanes of 32 bits, which is also 512 mask bits */
#define Word NAME(Word)
#define State NAME(State)

typedef uint32_t Word __attribute__((vector_size(VECTOR)));
typedef struct {
    Word s[4][PARTS];
} State;

/* Philox4x32-10 (Salmon et al. 2011), 16 counters at once. */
TARGET static void NAME(seed_block)(State *state, uint64_t seed, int64_t block) {
    uint32_t c[4][LANES], key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int i = 0; i < LANES; i++) {
        c[0][i] = (uint32_t)block;
        c[1][i] = (uint32_t)((uint64_t)block >> 32);
        c[2][i] = (uint32_t)i;
        c[3][i] = 0;
    }
    for (int round = 0; round < 10; round++) {
#pragma GCC unroll 1 /* GCC vectorises the loop only if it has not unrolled it */
        for (int i = 0; i < LANES; i++) {
            uint64_t a = UINT64_C(0xD2511F53) * c[0][i], b = UINT64_C(0xCD9E8D57) * c[2][i];
            c[0][i] = (uint32_t)(b >> 32) ^ c[1][i] ^ key[0];
            c[1][i] = (uint32_t)b;
            c[2][i] = (uint32_t)(a >> 32) ^ c[3][i] ^ key[1];
            c[3][i] = (uint32_t)a;
        }
        key[0] += 0x9E3779B9;
        key[1] += 0xBB67AE85;
    }
    memcpy(state->s, c, sizeof c);
}

/* xoshiro128++ (Blackman and Vigna 2021), one step of all 16 lanes. */
TARGET INLINE void NAME(draw)(State *state, Word bits[PARTS]) {
    for (int i = 0; i < PARTS; i++) {
        Word s0 = state->s[0][i], s1 = state->s[1][i], s2 = state->s[2][i], s3 = state->s[3][i];
        Word sum = s0 + s3;
        bits[i] = ((sum << 7) | (sum >> 25)) + s0;
        s2 ^= s0;
        s3 ^= s1;
        state->s[0][i] = s0 ^ s3;
        state->s[2][i] = s2 ^ (s1 << 9);
        state->s[1][i] = s1 ^ s2;
        state->s[3][i] = (s3 << 11) | (s3 >> 21);
    }
}

TARGET INLINE int NAME(any)(const Word *words, int num_words) {
    typedef uint64_t Long __attribute__((vector_size(VECTOR)));
    Word all = words[0];
    for (int i = 1; i < num_words; i++) {
        all |= words[i];
    }
    uint64_t some = 0;
    for (int i = 0; i < VECTOR / 8; i++) {
        some |= ((Long)all)[i];
    }
    return some != 0;
}

/* The bits of 512 comparisons U < rate. */
TARGET INLINE void NAME(draw_below)(State *state, uint64_t rate, Word below[PARTS]) {
    Word undecided[PARTS], bits[PARTS];
    for (int i = 0; i < PARTS; i++) {
        below[i] = (Word){0};
        undecided[i] = ~below[i];
    }
    /* When only zeros are left of the rate, U is not below it. The first test comes after SURE draws. */
    for (int num_draws = 0; rate != 0 && (num_draws < SURE || NAME(any)(undecided, PARTS)); num_draws++, rate <<= 1) {
        NAME(draw)(state, bits);
        for (int i = 0; i < PARTS; i++) {
            if (rate >> 63) {
                below[i] |= undecided[i] & ~bits[i];
                undecided[i] &= bits[i];
            } else {
                undecided[i] &= ~bits[i];
            }
        }
    }
}

/* The same U against every rate of the law. */
TARGET INLINE void NAME(draw_dropped)(State *state, const Law *law, int count, Word (*dropped)[PARTS]) {
    Word undecided[MOST_INTERVALS][PARTS], bits[PARTS];
    uint64_t left = 0;
    for (int j = 0; j < count; j++) {
        for (int i = 0; i < PARTS; i++) {
            Word zero = {0};
            dropped[j][i] = law->certain[j] ? ~zero : zero;
            undecided[j][i] = law->rates[j] ? ~zero : zero;
        }
        left |= law->rates[j];
    }
    for (int bit = 0; bit < 64 && left << bit && (bit < SURE || NAME(any)(undecided[0], count * PARTS)); bit++) {
        NAME(draw)(state, bits);
        for (int j = 0; j < count; j++) {
            Word one = (Word){0} - (uint32_t)(law->rates[j] << bit >> 63);
            for (int i = 0; i < PARTS; i++) {
                dropped[j][i] |= undecided[j][i] & one & ~bits[i];
                undecided[j][i] &= ~(one ^ bits[i]);
            }
        }
    }
}

#define WIDTH 16
#include "cpu.c"
#define WIDTH 32
#include "cpu.c"
#define WIDTH 64
#include "cpu.c"

TARGET static void NAME(drop)(const void *data, int64_t first_block, int64_t last_block) {
    const Job *job = data;
    switch (width_of(job->law->dtype)) {
    case 2: NAME(drop_16)(job, first_block, last_block); break;
    case 4: NAME(drop_32)(job, first_block, last_block); break;
    default: NAME(drop_64)(job, first_block, last_block);
    }
}

TARGET static void NAME(gate)(const void *data, int64_t first_block, int64_t last_block) {
    const Job *job = data;
    switch (width_of(job->law->dtype)) {
    case 2: NAME(gate_16)(job, first_block, last_block); break;
    case 4: NAME(gate_32)(job, first_block, last_block); break;
    default: NAME(gate_64)(job, first_block, last_block);
    }
}

#undef NAME
#undef PARTS
#undef Word
#undef State
#undef LEVEL
#undef TARGET
#undef VECTOR

#else /* --------------------------------------------------- part 3: one element width at one instruction set level */

#define SIZED(name) NAME(JOIN(name, WIDTH))
#define SIZE (WIDTH / 8)
#define ROW (GROUP / WIDTH * SIZE) /* bytes */
#define U SIZED(U)
#define S SIZED(S)
#define Float SIZED(Float)
#define TOP ((JOIN_TYPE(uint, WIDTH))1 << (WIDTH - 1))
#define JOIN_TYPE_(a, b) a##b##_t
#define JOIN_TYPE(a, b) JOIN_TYPE_(a, b)

typedef JOIN_TYPE(uint, WIDTH) U __attribute__((vector_size(VECTOR)));
typedef JOIN_TYPE(int, WIDTH) S __attribute__((vector_size(VECTOR)));
#if WIDTH == 64
typedef double Float __attribute__((vector_size(VECTOR)));
#else
typedef float Float __attribute__((vector_size(VECTOR)));
#endif

TARGET INLINE U SIZED(load)(const char *from) {
    U v;
    memcpy(&v, from, sizeof v);
    return v;
}

TARGET INLINE S SIZED(is_nan)(U v, const Law *law) {
#if WIDTH == 16
    return (S)(v & (uint16_t)0x7fff) > (int16_t)law->nan_above;
#else
    (void)law;
    return (S)((Float)v != (Float)v);
#endif
}

#if WIDTH == 16
/* The lower half of each lane, a float16, as float32, and back, rounded to nearest even. */
TARGET INLINE Float NAME(widened)(Word half) {
    Word magnitude = (half & 0x7fffu) << 13, special = (Word)(magnitude >= 0x7c00u << 13) & 0x7f800000u;
    Float rebiased = (Float)magnitude * 0x1p112f;
    return (Float)((Word)rebiased | special | (half & 0x8000u) << 16);
}

TARGET INLINE Word NAME(narrowed)(Float single) {
    Word bits = (Word)single, magnitude = bits & 0x7fffffffu;
    Word normal = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    Word tiny = (Word)((Float)magnitude + 0.5f) - (Word)((Float){0} + 0.5f);
    Word is_tiny = (Word)(magnitude < 113u << 23), is_huge = (Word)(magnitude >= 0x477ff000u);
    Word half = (is_tiny & tiny) | (~is_tiny & normal);
    Word huge = 0x7c00u | ((Word)(magnitude > 0x7f800000u) & 0x200u);
    return (is_huge & huge) | (~is_huge & half) | (bits >> 16 & 0x8000u);
}

TARGET INLINE Word NAME(rounded)(Float single) { /* float32 to bfloat16, still in the upper half */
    Word bits = (Word)single;
    Word nan = (Word)((bits & 0x7fffffffu) > 0x7f800000u);
    return ((nan & (bits | 0x400000u)) | (~nan & (bits + 0x7fffu + (bits >> 16 & 1u)))) & 0xffff0000u;
}

TARGET INLINE U SIZED(times)(U v, double factor, const Law *law) {
    Word pair = (Word)v;
    float scale = (float)factor;
    if (law->dtype == BFLOAT16) {
        Float low = (Float)(pair << 16) * scale, high = (Float)(pair & 0xffff0000u) * scale;
        return (U)(NAME(rounded)(high) | NAME(rounded)(low) >> 16);
    }
    Float low = NAME(widened)(pair & 0xffffu) * scale, high = NAME(widened)(pair >> 16) * scale;
    return (U)(NAME(narrowed)(high) << 16 | NAME(narrowed)(low));
}
#elif WIDTH == 32
TARGET INLINE U SIZED(times)(U v, double factor, const Law *law) {
    (void)law;
    return (U)((Float)v * (float)factor);
}
#else
TARGET INLINE U SIZED(times)(U v, double factor, const Law *law) {
    (void)law;
    return (U)((Float)v * factor);
}
#endif

TARGET INLINE U SIZED(scaled)(U v, U keep, const Law *law) {
    return (law->scaled ? SIZED(times)(v, law->scale, law) : v) & keep;
}

TARGET INLINE void SIZED(store)(char *to, U v) {
    memcpy(to, &v, sizeof v);
}

/* v - 1 has the sign of v as a float, save that -0 loses it and +0 gets it: -0 is no negative number, and of a +0 kept
   and dropped are the same. */
TARGET INLINE void SIZED(flip_group)(const Law *law, State *state, char *out, const char *x) {
    Word below[PARTS];
    NAME(draw_below)(state, law->rates[0], below);
    for (int row = 0; row < WIDTH; row++) {
        for (int i = 0; i < PARTS; i++) {
            U v = SIZED(load)(x + row * ROW + i * VECTOR), mask = (U)below[i];
            U keep = (U)((S)((v - 1) ^ mask) < 0) | (U)SIZED(is_nan)(v, law);
            SIZED(store)(out + row * ROW + i * VECTOR, v & keep);
            below[i] = (Word)(mask + mask);
        }
    }
}

TARGET INLINE void SIZED(select_group)(const Law *law, State *state, char *out, const char *x) {
    Word below[PARTS], positive[PARTS], differ[PARTS];
    int open = law->rates[0] == 0; /* the interval whose rate is neither 0 nor 1, if any */
    NAME(draw_below)(state, law->rates[open], below);
    for (int i = 0; i < PARTS; i++) {
        Word all = ~(Word){0}, negative = law->certain[0] ? ~all : law->rates[0] ? ~below[i] : all;
        positive[i] = law->certain[1] ? ~all : law->rates[1] ? ~below[i] : all;
        differ[i] = positive[i] ^ negative;
    }
    for (int row = 0; row < WIDTH; row++) {
        for (int i = 0; i < PARTS; i++) {
            U v = SIZED(load)(x + row * ROW + i * VECTOR), mask = (U)positive[i], change = (U)differ[i];
            U keep = (U)((S)(mask ^ ((v - 1) & change)) < 0) | (U)SIZED(is_nan)(v, law);
            SIZED(store)(out + row * ROW + i * VECTOR, SIZED(scaled)(v, keep, law));
            positive[i] = (Word)(mask + mask);
            differ[i] = (Word)(change + change);
        }
    }
}

TARGET INLINE void SIZED(general_group)(const Law *law, int count, State *state, char *out, const char *x) {
    Word dropped[MOST_INTERVALS][PARTS];
    NAME(draw_dropped)(state, law, count, dropped);
    for (int row = 0; row < WIDTH; row++) {
        for (int i = 0; i < PARTS; i++) {
            U v = SIZED(load)(x + row * ROW + i * VECTOR), negative = (U)((S)v < 0);
            U key = (negative & (TOP - v)) | (~negative & v), drop = (U)dropped[0][i];
            for (int j = 1; j < count; j++) {
                U edge = (U){0} + (JOIN_TYPE(uint, WIDTH))law->edges[j - 1];
                drop ^= (drop ^ (U)dropped[j][i]) & (U)((S)key >= (S)edge);
            }
            U keep = (U)((S)drop >= 0) | (U)SIZED(is_nan)(v, law), result = SIZED(scaled)(v, keep, law);
            if (law->at_zero != 0) { /* a product that underflows to -0 is no mark */
                result = (result & (U)(result != TOP)) | ((U)((v + v) == 0) & TOP);
            }
            SIZED(store)(out + row * ROW + i * VECTOR, result);
            for (int j = 0; j < count; j++) {
                dropped[j][i] = (Word)((U)dropped[j][i] + (U)dropped[j][i]);
            }
        }
    }
}

TARGET INLINE void SIZED(drop_group)(int kind, const Law *law, State *state, char *out, const char *x) {
    if (kind == FLIP) {
        SIZED(flip_group)(law, state, out, x);
    } else if (kind == SELECT) {
        SIZED(select_group)(law, state, out, x);
    } else if (law->count == 2) { /* a constant unrolls the loops */
        SIZED(general_group)(law, 2, state, out, x);
    } else {
        SIZED(general_group)(law, law->count, state, out, x);
    }
}

TARGET INLINE void SIZED(drop_blocks)(int kind, const Job *job, int64_t first_block, int64_t last_block) {
    const Law law = *job->law; /* a copy that no store can alias */
    for (int64_t block = first_block; block < last_block; block++) {
        State state;
        NAME(seed_block)(&state, job->seed, block);
        for (int64_t i = block * BLOCK; i < (block + 1) * BLOCK && i < job->num_elements; i += GROUP) {
            int64_t left = job->num_elements - i;
            char *out = job->out + i * SIZE;
            const char *x = job->x + i * SIZE;
            if (left >= GROUP) {
                SIZED(drop_group)(kind, &law, &state, out, x);
            } else {
                char last[GROUP * SIZE] = {0};
                memcpy(last, x, (size_t)left * SIZE);
                SIZED(drop_group)(kind, &law, &state, last, last);
                memcpy(out, last, (size_t)left * SIZE);
            }
        }
    }
}

TARGET static void SIZED(drop)(const Job *job, int64_t first_block, int64_t last_block) {
    switch (job->law->kind) {
    case FLIP: SIZED(drop_blocks)(FLIP, job, first_block, last_block); break;
    case SELECT: SIZED(drop_blocks)(SELECT, job, first_block, last_block); break;
    default: SIZED(drop_blocks)(GENERAL, job, first_block, last_block);
    }
}

TARGET INLINE void SIZED(gate_vector)(const Law *law, char *out, U grad, const char *y) {
    U v = SIZED(load)(y), result = SIZED(scaled)(grad, (U)((v + v) != 0), law);
    if (law->at_zero != 0) {
        result |= SIZED(times)(grad, law->at_zero, law) & (U)(v == TOP);
    }
    SIZED(store)(out, result);
}

TARGET static void SIZED(gate)(const Job *job, int64_t first_block, int64_t last_block) {
    int64_t begin = first_block * BLOCK * SIZE, end = last_block * BLOCK * SIZE, i = begin;
    if (end > job->num_elements * SIZE) {
        end = job->num_elements * SIZE;
    }
    JOIN_TYPE(uint, WIDTH) one = 0;
    U all = {0};
    const Law law = *job->law;
    if (job->broadcast) {
        memcpy(&one, job->x, SIZE);
        all += one;
        for (; i + VECTOR <= end; i += VECTOR) {
            SIZED(gate_vector)(&law, job->out + i, all, job->y + i);
        }
    } else {
        for (; i + VECTOR <= end; i += VECTOR) {
            SIZED(gate_vector)(&law, job->out + i, SIZED(load)(job->x + i), job->y + i);
        }
    }
    if (i < end) {
        char grad[VECTOR] = {0}, y[VECTOR] = {0}, out[VECTOR];
        memcpy(grad, job->broadcast ? (const char *)&all : job->x + i, (size_t)(end - i));
        memcpy(y, job->y + i, (size_t)(end - i));
        SIZED(gate_vector)(&law, out, SIZED(load)(grad), y);
        memcpy(job->out + i, out, (size_t)(end - i));
    }
}

#undef SIZED
#undef SIZE
#undef ROW
#undef U
#undef S
#undef Float
#undef TOP
#undef JOIN_TYPE
#undef JOIN_TYPE_
#undef WIDTH

#endif
