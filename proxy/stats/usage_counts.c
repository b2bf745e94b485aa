#include "stats/usage_counts.h"

void usage_count(struct usage_counts *counts, unsigned limit, uint64_t caller, bool admitted)
{
	pthread_mutex_lock(&counts->lock);
	usage_table_add(&counts->table, USAGE_ROWS, limit, caller, admitted, !admitted);
	pthread_mutex_unlock(&counts->lock);
}
