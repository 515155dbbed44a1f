/* Renewal of units on a CPU in one pass, rounded as torch's operations would: what CBP does with a layer's units at each
   step (methods/cbp.py), and the steps of renewed entries (methods/renewal.py). */

#include <math.h>
#include <stdlib.h>

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
    const float *mean, *root;
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

/* Ages of the indices along one dimension, and their scales; returns how many are younger than the tensor. */
static int64_t fill(Scales scales, float *born, int64_t count, float step, int is_stepped, const Table *table) {
    int64_t num_young = 0;
    for (int64_t i = 0; i < count; i++) {
        born[i] = born[i] > step ? 0 : born[i]; /* the optimizer was started anew since then */
        scales.age[i] = is_stepped && born[i] < step ? step - born[i] : step;
        num_young += scales.age[i] < step;
        look_up(table, scales.age[i], &scales.rate[i], &scales.epsilon[i]);
    }
    return num_young;
}

INLINE void correct(float *parameter, float mean, float root, float rate, float epsilon, const Job *job) {
    float update = mean * rate / (root + epsilon);
    *parameter -= update - mean * job->rate / (root + job->epsilon);
}

CLONES static void correct_rows(const void *data, int64_t first_row, int64_t last_row) {
    const Job *job = data;
    for (int64_t row = first_row; row < last_row; row++) {
        float age = job->rows.age ? job->rows.age[row] : INFINITY;
        float rate = job->rows.age ? job->rows.rate[row] : job->rate;
        float epsilon = job->rows.age ? job->rows.epsilon[row] : job->epsilon;
        int64_t at = row * job->num_columns * job->inner, length = job->num_columns * job->inner;
        const float *ages = job->columns.age, *rates = job->columns.rate, *epsilons = job->columns.epsilon;
        if (!ages) {
            if (rate != job->rate || epsilon != job->epsilon) {
                for (int64_t i = at; i < at + length; i++) {
                    correct(job->parameter + i, job->mean[i], job->root[i], rate, epsilon, job);
                }
            }
        } else if (job->inner == 1) {
            for (int64_t i = 0; i < length; i++) {
                float own_rate = ages[i] < age ? rates[i] : rate;
                float own_epsilon = ages[i] < age ? epsilons[i] : epsilon;
                correct(job->parameter + at + i, job->mean[at + i], job->root[at + i], own_rate, own_epsilon, job);
            }
        } else {
            for (int64_t column = 0; column < job->num_columns; column++) {
                float own_rate = ages[column] < age ? rates[column] : rate;
                float own_epsilon = ages[column] < age ? epsilons[column] : epsilon;
                for (int64_t i = at + column * job->inner; i < at + (column + 1) * job->inner; i++) {
                    correct(job->parameter + i, job->mean[i], job->root[i], own_rate, own_epsilon, job);
                }
            }
        }
    }
}

/* ``mean`` is Adam's first moment, ``root`` that of the second by torch, whose roots round in a way of their own. The
   parameter is ``num_rows`` x ``num_columns`` x ``inner``; rows and columns were born at these steps, NULL if they are not units. False if there is no memory. */
EXPORT int supple_take_own_steps(float *parameter, const float *mean, const float *root, int64_t num_rows,
                                 int64_t num_columns, int64_t inner, float *rows_born, float *columns_born, float step,
                                 float *last_step, const double *root_of_second, const double *first, int64_t num_ages,
                                 double lr, double epsilon, int num_threads) {
    Table table = {root_of_second, first, num_ages, lr, epsilon};
    int64_t num_scales = (rows_born ? num_rows : 0) + (columns_born ? num_columns : 0), num_young = 0;
    float *room = malloc(3 * (size_t)num_scales * sizeof *room), *next = room;
    if (!room) {
        return 0;
    }
    int is_stepped = *last_step != step; /* not if it had no gradient */
    *last_step = step;
    Job job = {parameter, mean, root, num_columns, inner, {0}, {0}, 0, 0};
    look_up(&table, step, &job.rate, &job.epsilon);
    if (rows_born) {
        job.rows = (Scales){next, next + num_rows, next + 2 * num_rows};
        next += 3 * num_rows;
        num_young += fill(job.rows, rows_born, num_rows, step, is_stepped, &table);
    }
    if (columns_born) {
        job.columns = (Scales){next, next + num_columns, next + 2 * num_columns};
        num_young += fill(job.columns, columns_born, num_columns, step, is_stepped, &table);
    }
    if (num_young) {
        supple_run(correct_rows, &job, num_rows, num_rows * num_columns * inner, num_threads);
    }
    free(room);
    return 1;
}

/* Add a step's values to the running utilities, and the mature units' share to the budget; returns how many units are
   due, for which the budget has paid. */
EXPORT int64_t supple_rate_units(float *utility, const float *value, const int64_t *age, double *budget,
                                 int64_t num_units, double decay, int64_t maturity, double rate, int64_t num_slots) {
    float weight = (float)(1 - decay);
    int64_t num_mature = 0;
    for (int64_t i = 0; i < num_units; i++) {
        num_mature += age[i] > maturity;
        if (isfinite(value[i])) { /* lerp, from the end that is nearer */
            float way = value[i] - utility[i];
            utility[i] = weight < 0.5f ? fmaf(weight, way, utility[i]) : fmaf(weight - 1, way, value[i]);
        }
    }
    *budget += rate * (double)num_mature;
    double num_due = fmin(floor(*budget), (double)num_slots);
    *budget -= num_due;
    return num_due < (double)num_mature ? (int64_t)num_due : num_mature;
}
