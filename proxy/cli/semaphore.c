/* The command line of `sluice semaphore`. See semaphore.h. */
#include "cli/semaphore.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cli/load.h"
#include "cli/scan.h"
#include "cli/semaphore_verbs.h"
#include "semaphore/slots.h"

/* Strays are looked for until so many slots in a row are missing. */
enum { OVERSHOOT_DEFAULT = 1000 };

/* Another administrator needs a few ms a slot. */
enum { LOCK_MS = 10000 };

/* clang-format off */
const char cli_semaphore_usage[] =
	"       sluice semaphore create NAME [--ensure]          create its slots at the broker\n"
	"       sluice semaphore add|remove NAME COUNT           add or remove slots\n"
	"       sluice semaphore status NAME                     print the slots, and which are held\n"
	"       sluice semaphore wait NAME                       wait until no removed slot is held\n"
	"       sluice semaphore prune NAME                      remove slots behind a gap\n"
	"       sluice semaphore destroy NAME                    remove all slots\n"
	"         these take [-c FILE] [--json] [--timeout TIME] [--overshoot COUNT]\n";
/* clang-format on */

static bool take_number(const char *text, const char *what, uint64_t min, uint32_t *number)
{
	uint64_t read;

	if (!cli_scan_number(text, &read) || read < min || read > SLOTS_MOST) {
		fprintf(stderr,
			"sluice semaphore: invalid %s \"%s\"; expected a number from %u to %u\n",
			what, text, (unsigned)min, SLOTS_MOST);
		return false;
	}
	*number = (uint32_t)read;
	return true;
}

static bool take_timeout(struct semaphore_call *call, const char *text)
{
	call->has_timeout = cli_scan_duration_ms(text, &call->timeout_ms);
	if (!call->has_timeout)
		fprintf(stderr,
			"sluice semaphore: invalid --timeout \"%s\"; expected a duration such as "
			"10s\n",
			text);
	return call->has_timeout;
}

enum { GIVEN_ENSURE = 256, GIVEN_JSON, GIVEN_TIMEOUT, GIVEN_OVERSHOOT };

static const struct option options[] = {{"config", required_argument, NULL, 'c'},
	{"ensure", no_argument, NULL, GIVEN_ENSURE}, {"json", no_argument, NULL, GIVEN_JSON},
	{"timeout", required_argument, NULL, GIVEN_TIMEOUT},
	{"overshoot", required_argument, NULL, GIVEN_OVERSHOOT}, {"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0}};

/* Options whose values are looked at when all are there, as --help goes before a wrong one. */
struct given {
	const char *timeout, *overshoot;
};

static bool take_option(struct semaphore_call *call, struct given *values, int given)
{
	switch (given) {
	case 'c':
		call->path = optarg;
		return true;
	case GIVEN_ENSURE:
		call->ensure = true;
		return true;
	case GIVEN_JSON:
		call->json = true;
		return true;
	case GIVEN_TIMEOUT:
		values->timeout = optarg;
		return true;
	case GIVEN_OVERSHOOT:
		values->overshoot = optarg;
		return true;
	default:
		return false;
	}
}

static bool take_values(struct semaphore_call *call, const struct given *values)
{
	if (values->timeout && !take_timeout(call, values->timeout))
		return false;
	return !values->overshoot ||
	       take_number(values->overshoot, "--overshoot", 0, &call->overshoot);
}

/* VERB NAME [COUNT] */
static bool take_words(struct semaphore_call *call, char **words, int count)
{
	const struct semaphore_verb *verb = count > 0 ? semaphore_verb_find(words[0]) : NULL;

	if (count == 0)
		fputs("sluice semaphore: a command is needed\n", stderr);
	if (!verb)
		return false;
	bool takes_count = semaphore_verb_takes_count(verb);
	if (count != (takes_count ? 3 : 2)) {
		fprintf(stderr, "sluice semaphore %s: expected NAME%s\n", words[0],
			takes_count ? " COUNT" : "");
		return false;
	}
	if (call->ensure && !semaphore_verb_takes_ensure(verb)) {
		fprintf(stderr, "sluice semaphore %s: unexpected option --ensure\n", words[0]);
		return false;
	}
	call->verb = verb;
	call->name = words[1];
	return !takes_count || take_number(words[2], "COUNT", 1, &call->count);
}

int cli_semaphore(int argc, char **argv)
{
	struct semaphore_call call = {
		.path = CLI_DEFAULT_FILE, .overshoot = OVERSHOOT_DEFAULT, .timeout_ms = LOCK_MS};
	struct given values = {0};
	int given;

	optind = 1;
	while ((given = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
		if (given == 'h') {
			printf("usage: %s", cli_semaphore_usage + strspn(cli_semaphore_usage, " "));
			return 0;
		}
		if (!take_option(&call, &values, given)) {
			fputs(cli_semaphore_usage, stderr);
			return SEMAPHORE_EXIT_USAGE;
		}
	}
	if (!take_values(&call, &values) || !take_words(&call, argv + optind, argc - optind)) {
		fputs(cli_semaphore_usage, stderr);
		return SEMAPHORE_EXIT_USAGE;
	}
	return semaphore_verb_run(&call);
}
