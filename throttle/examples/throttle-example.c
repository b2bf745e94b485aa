/* 3 per second for each name that is read from standard input, in a file that survives restarts.
 *
 *	cc throttle-example.c $(pkg-config --cflags --libs throttle) -o throttle-example
 *	yes alice | head -5 | ./throttle-example /tmp
 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime, where the compiler has -std=c11 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <throttle/throttle.h>

int main(int argc, char **argv)
{
	struct throttle_limit limit = {.name = "names", .quota = 3, .window_ns = 1000000000};
	struct timespec clock;
	char name[256];

	clock_gettime(CLOCK_REALTIME, &clock);
	struct throttle_table_options options = {
		.folder = argc > 1 ? argv[1] : NULL,
		.callers = 10000,
		.now_ns = (uint64_t)clock.tv_sec * 1000000000 + (uint64_t)clock.tv_nsec,
	};
	struct throttle_report report;
	struct throttle_table *table = throttle_table_open(&options, &limit, 1, &report);

	fprintf(stderr, "%s\n", report.text);
	if (table == NULL)
		return 1;
	while (fgets(name, sizeof(name), stdin) != NULL) {
		struct throttle_charge charge = {.limit = 0, .cost = 1};
		struct throttle_seed seed = throttle_table_seed(table);
		struct throttle_verdict verdict;

		clock_gettime(CLOCK_REALTIME, &clock);
		charge.caller = throttle_hash(&seed, name, strcspn(name, "\n"));
		throttle_take(table, &charge, 1,
			(uint64_t)clock.tv_sec * 1000000000 + (uint64_t)clock.tv_nsec, &verdict,
			NULL);
		if (verdict.admitted)
			printf("admitted, %u left\n", (unsigned)verdict.outcome[0].remaining);
		else
			printf("refused, come back in %.6f s\n",
				(double)verdict.retry_after_ns / 1e9);
	}
	throttle_table_close(table);
	return 0;
}
