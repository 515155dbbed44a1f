/* Work in shares on the threads that torch lends. */

#include <stdint.h>

typedef void (*Body)(const void *job, int64_t first_item, int64_t last_item);

void supple_run(Body body, const void *job, int64_t num_items, int64_t num_elements, int num_threads);
