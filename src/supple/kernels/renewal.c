/* Renewal of units on a CPU in one pass, rounded as torch's operations would: what CBP does with a layer's units at
   each step (methods/cbp.py), and the steps of renewed entries (methods/renewal.py). */

#include <math.h>
#include <string.h>

#include "pool.h"

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))
#if defined __x86_64__ && defined __gnu_linux__ && defined __GNUC__ && !defined __clang__
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif

typedef struct { /* what Adam does at an age: rate * mean / (root + epsilon) */
    float *age, *rate, *epsilon;
} Scales;

typedef struct {
    float *parameter;
    const float *mean, *roots;
    const int64_t *places;      /* of each row's roots; below 0 if no entry of the row is young */
    int64_t num_columns, inner; /* entries of a row: columns, of so many entries each */
    Scales rows, columns;       /* the columns' are NULL if only rows are renewed */
    float rate, epsilon;        /* of the tensor's age */
} Job;

/* 1 - beta^age for both betas of Adam, of the second its root; ages from ``num_ages`` on are as the last one. */
typedef struct {
    const double *root_of_second, *first;
    int64_t num_ages;
    double lr, epsilon;
} Table;

INLINE void look_up(const Table *table, float age, float *rate, float *epsilon) {
    int64_t at = age < (float)table->num_ages ? (int64_t)age : table->num_ages - 1;
    *rate = (float)(table->lr * table->root_of_second[at] / table->first[at]);
    *epsilon = (float)(table->epsilon * table->root_of_second[at]);
}

/* Ages of the indices along one dimension, and their scales. */
static void fill(Scales scales, float *born, int64_t count, float step, const Table *table) {
    for (int64_t i = 0; i < count; i++) {
        born[i] = born[i] > step ? 0 : born[i]; /* the optimizer was started anew since then */
        scales.age[i] = born[i] < step ? step - born[i] : step;
        look_up(table, scales.age[i], &scales.rate[i], &scales.epsilon[i]);
    }
}

INLINE void correct(float *parameter, float mean, float root, float rate, float epsilon, const Job *job) {
    float update = mean * rate / (root + epsilon);
    *parameter -= update - mean * job->rate / (root + job->epsilon);
}

CLONES static void correct_rows(const void *data, int64_t first_row, int64_t last_row) {
    const Job *job = data;
    int64_t length = job->num_columns * job->inner;
    for (int64_t row = first_row; row < last_row; row++) {
        if (job->places[row] < 0) {
            continue;
        }
        float age = job->rows.age ? job->rows.age[row] : INFINITY;
        float rate = job->rows.age ? job->rows.rate[row] : job->rate;
        float epsilon = job->rows.age ? job->rows.epsilon[row] : job->epsilon;
        float *parameter = job->parameter + row * length;
        const float *mean = job->mean + row * length, *root = job->roots + job->places[row];
        const float *ages = job->columns.age, *rates = job->columns.rate, *epsilons = job->columns.epsilon;
        if (!ages) {
            for (int64_t i = 0; i < length; i++) {
                correct(parameter + i, mean[i], root[i], rate, epsilon, job);
            }
        } else if (job->inner == 1) {
            for (int64_t i = 0; i < length; i++) {
                float own_rate = ages[i] < age ? rates[i] : rate;
                float own_epsilon = ages[i] < age ? epsilons[i] : epsilon;
                correct(parameter + i, mean[i], root[i], own_rate, own_epsilon, job);
            }
        } else {
            for (int64_t column = 0; column < job->num_columns; column++) {
                float own_rate = ages[column] < age ? rates[column] : rate;
                float own_epsilon = ages[column] < age ? epsilons[column] : epsilon;
                for (int64_t i = column * job->inner; i < (column + 1) * job->inner; i++) {
                    correct(parameter + i, mean[i], root[i], own_rate, own_epsilon, job);
                }
            }
        }
    }
}

/* A tensor of ``num_rows`` x ``num_columns`` x ``inner`` after Adam's step, with its moments. */
typedef struct {
    float *parameter;
    const float *mean, *square;
    int64_t num_rows, num_columns, inner;
    float *rows_born, *columns_born; /* at these steps; NULL if they are not units */
    float *last_step;
} Grown;

static int has_young(const float *born, int64_t count, float step) {
    for (int64_t i = 0; born && i < count; i++) {
        if (born[i] > 0 && born[i] < step) {
            return 1;
        }
    }
    return 0;
}

/* Put the second moments of rows with a young entry one after the other, for torch to take their roots, which round in
   a way of their own; returns how many numbers. ``places`` says where each row's are, for the rows of all tensors. */
EXPORT int64_t supple_pack_squares(const Grown *many, const float *steps, int64_t count, int64_t *places,
                                   float *packed) {
    int64_t end = 0;
    for (const Grown *grown = many; grown < many + count; places += grown++->num_rows) {
        float step = steps[grown - many];
        int64_t length = grown->num_columns * grown->inner;
        int is_stepped = *grown->last_step != step; /* not if it had no gradient */
        int is_whole = has_young(grown->columns_born, grown->num_columns, step);
        for (int64_t row = 0; row < grown->num_rows; row++) {
            const float *born = grown->rows_born ? grown->rows_born + row : NULL;
            places[row] = -1;
            if (is_stepped && (is_whole || has_young(born, 1, step))) {
                memcpy(packed + end, grown->square + row * length, (size_t)length * sizeof *packed);
                places[row] = end;
                end += length;
            }
        }
    }
    return end;
}

static void take_own_steps(const Grown *grown, float step, const float *roots, const int64_t *places,
                           const Table *table, float *room, int num_threads) {
    int64_t num_rows = grown->num_rows, num_columns = grown->num_columns;
    *grown->last_step = step;
    Job job = {grown->parameter, grown->mean, roots, places, num_columns, grown->inner, {0}, {0}, 0, 0};
    look_up(table, step, &job.rate, &job.epsilon);
    if (grown->rows_born) {
        job.rows = (Scales){room, room + num_rows, room + 2 * num_rows};
        room += 3 * num_rows;
        fill(job.rows, grown->rows_born, num_rows, step, table);
    }
    if (grown->columns_born) {
        job.columns = (Scales){room, room + num_columns, room + 2 * num_columns};
        fill(job.columns, grown->columns_born, num_columns, step, table);
    }
    supple_run(correct_rows, &job, num_rows, num_rows * num_columns * grown->inner, num_threads);
}

/* With the roots of the packed squares, and ``room`` for 3 numbers a row and column of the largest tensor. */
EXPORT void supple_take_own_steps(const Grown *many, const float *steps, int64_t count, const int64_t *places,
                                  const float *roots, float *room, const double *root_of_second, const double *first,
                                  int64_t num_ages, double lr, double epsilon, int num_threads) {
    Table table = {root_of_second, first, num_ages, lr, epsilon};
    for (int64_t i = 0; i < count; places += many[i++].num_rows) {
        take_own_steps(many + i, steps[i], roots, places, &table, room, num_threads);
    }
}

/* Have the units grow older, and add their values of a step to the running utilities, and the mature units' share to
   the budget; returns how many are due, for which the budget has paid. A value is a mean, or the product of two, given
   as sums. */
EXPORT int64_t supple_rate_units(float *utility, const float *activity, float number, const float *outgoing,
                                 float num_weights, int64_t *age, int64_t older, double *budget, int64_t num_units,
                                 double decay, int64_t maturity, double rate, int64_t num_slots) {
    float weight = (float)(1 - decay);
    int64_t num_mature = 0;
    for (int64_t i = 0; i < num_units; i++) {
        float value = outgoing ? (activity[i] / number) * (outgoing[i] / num_weights) : activity[i] / number;
        age[i] += older;
        num_mature += age[i] > maturity;
        if (isfinite(value)) { /* lerp, from the end that is nearer */
            float way = value - utility[i];
            utility[i] = weight < 0.5f ? fmaf(weight, way, utility[i]) : fmaf(weight - 1, way, value);
        }
    }
    *budget += rate * (double)num_mature;
    double num_due = fmin(floor(*budget), (double)num_slots);
    *budget -= num_due;
    return num_due < (double)num_mature ? (int64_t)num_due : num_mature;
}

/* Entries of a tensor that belong to units along its dimension ``dim``, 0 or 1, and get a value: of ``values`` by its
   place or, without places, in their order; without values, one number for all. */
typedef struct {
    float *tensor, *moments[3], *born; /* NULL if there are none */
    const int64_t *units;
    const unsigned char *due;
    const float *values;
    const int64_t *places;
    int64_t num_units, dim, num_rows, num_columns, inner;
} Part;

static void write_unit(const Part *part, int64_t k, float value) {
    int64_t num_pieces = part->dim ? part->num_rows : 1, unit = part->units[k];
    int64_t length = part->dim ? part->inner : part->num_columns * part->inner;
    for (int64_t piece = 0; piece < num_pieces; piece++) {
        int64_t at = part->dim ? (piece * part->num_columns + unit) * length : unit * length;
        for (int64_t i = 0; i < length; i++) {
            int64_t own = k * length + i;
            part->tensor[at + i] = part->values ? part->values[part->places ? part->places[own] : own] : value;
        }
        for (int m = 0; m < 3 && part->moments[m]; m++) {
            memset(part->moments[m] + at, 0, (size_t)length * sizeof(float));
        }
    }
}

/* Make the units that are due new: ``values`` and ``steps`` are the number and the step of birth of each part. */
EXPORT void supple_renew(const Part *parts, const float *values, const float *steps, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        for (int64_t k = 0; k < parts[i].num_units; k++) {
            if (parts[i].due[k]) {
                write_unit(parts + i, k, values[i]);
                if (parts[i].born) {
                    parts[i].born[parts[i].units[k]] = steps[i];
                }
            }
        }
    }
}
