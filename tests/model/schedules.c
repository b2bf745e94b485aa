#include "schedules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void usage(const struct schedules *schedules)
{
	fprintf(stderr, "%s [--seed N] [--schedules N] [--without PART], a PART being one of:\n",
		schedules->name);
	for (unsigned part = 1; part < SCHEDULES_PARTS_MOST && schedules->parts[part]; part++)
		fprintf(stderr, "  %s\n", schedules->parts[part]);
	exit(2);
}

static unsigned read_part(const struct schedules *schedules, const char *word)
{
	for (unsigned part = 1; part < SCHEDULES_PARTS_MOST && schedules->parts[part]; part++) {
		if (strcmp(word, schedules->parts[part]) == 0)
			return part;
	}
	usage(schedules);
	return 0;
}

static int run_all(
	const struct schedules *schedules, uint64_t first, uint64_t count, unsigned without)
{
	uint64_t n = 0;
	bool holds = true;

	for (; n < count && holds; n++)
		holds = schedules->run(schedules->own, first + n, without);
	if (!holds)
		printf("# --seed %llu --schedules 1 breaks it\n",
			(unsigned long long)(first + n - 1));
	printf("# %llu schedules from seed %llu: %s\n", (unsigned long long)n,
		(unsigned long long)first, holds ? "all hold" : "the last broke the promise");
	return !holds;
}

int schedules_main(const struct schedules *schedules, int argc, char **argv)
{
	uint64_t seed = 1, count = schedules->count;
	unsigned without = 0;

	for (int i = 1; i < argc; i += 2) {
		if (i + 1 == argc)
			usage(schedules);
		if (strcmp(argv[i], "--seed") == 0)
			seed = strtoull(argv[i + 1], NULL, 10);
		else if (strcmp(argv[i], "--schedules") == 0)
			count = strtoull(argv[i + 1], NULL, 10);
		else if (strcmp(argv[i], "--without") == 0)
			without = read_part(schedules, argv[i + 1]);
		else
			usage(schedules);
	}
	return run_all(schedules, seed, count, without);
}
