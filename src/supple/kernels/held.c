/* Interval-wise dropout by held masks on a CPU: one pass over float32, bit by bit as random.py and reference.py. */

#include <stdint.h>

#include "pool.h"

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))

typedef struct {
    float *out;
    const float *x;
    int64_t num_columns; /* elements of a sample */
    const int64_t *samples;
    uint64_t place;
    const float *edges;
    const int64_t *least; /* of each interval: the least of 2^53 numbers that keeps an element */
    int count;
    float scale;
} Job;

/* The finalizer of splitmix64 (Steele et al. 2014). */
INLINE uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

INLINE void drop(const Job *job, int count, int64_t first_row, int64_t last_row) {
    const float scale = job->scale;
    for (int64_t row = first_row; row < last_row; row++) {
        uint64_t sample = (uint64_t)job->samples[row] * UINT64_C(0xBF58476D1CE4E5B9) + job->place;
        const float *x = job->x + row * job->num_columns;
        float *out = job->out + row * job->num_columns;
        for (int64_t i = 0; i < job->num_columns; i++) {
            uint64_t bits = mix(sample + (uint64_t)i * UINT64_C(0x9E3779B97F4A7C15));
            int64_t number = (int64_t)(bits >> 11), least = job->least[0];
            for (int j = 1; j < count; j++) {
                least = x[i] >= job->edges[j - 1] ? job->least[j] : least;
            }
            out[i] = number >= least || x[i] != x[i] ? x[i] * scale : 0;
        }
    }
}

static void drop_rows(const void *data, int64_t first_row, int64_t last_row) {
    const Job *job = data;
    if (job->count == 2) { /* a constant unrolls the loop */
        drop(job, 2, first_row, last_row);
    } else {
        drop(job, job->count, first_row, last_row);
    }
}

/* Rows are samples; out may be x. count numbers ``least``, and count - 1 edges. */
EXPORT void supple_drop_held(float *out, const float *x, int64_t num_rows, int64_t num_columns, const int64_t *samples,
                             int64_t place, const float *edges, const int64_t *least, int count, double scale,
                             int num_threads) {
    Job job = {out, x, num_columns, samples, (uint64_t)place, edges, least, count, (float)scale};
    supple_run(drop_rows, &job, num_rows, num_rows * num_columns, num_threads);
}
