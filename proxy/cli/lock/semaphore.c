/* The command line of `sluice semaphore`. See semaphore.h. */
#include "cli/lock/semaphore.h"
#include "cli/table.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cli/run.h"
#include "cli/lock/scan.h"
#include "cli/lock/semaphore_verbs.h"
#include "semaphore/slots.h"

/* Strays are looked for until so many slots in a row are missing. */
enum { OVERSHOOT_DEFAULT = 1000 };

/* Another administrator needs a few ms a slot. */
enum { LOCK_MS = 10000 };

/* From TERM to KILL of a command that has lost its slot. */
enum { GRACE_MS = 2000, GRACE_MAX_MS = 60 * 60 * 1000 };

/* clang-format off */
const char cli_semaphore_usage[] =
	"       sluice semaphore create NAME [--ensure]          create its slots at the broker\n"
	"       sluice semaphore add|remove NAME COUNT           add or remove slots\n"
	"       sluice semaphore status NAME                     print the slots, and which are held\n"
	"       sluice semaphore wait NAME                       wait until no removed slot is held\n"
	"       sluice semaphore prune NAME                      remove slots behind a gap\n"
	"       sluice semaphore destroy NAME                    remove all slots\n"
	"         these take [-c FILE] [--json] [--timeout TIME] [--overshoot COUNT]\n"
	"       sluice semaphore hold NAME -- COMMAND...         run a command while it holds a slot\n"
	"         takes [-c FILE] [--wait] [--timeout TIME] [--attempts COUNT] [--grace TIME]\n";
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

static bool take_grace(struct semaphore_call *call, const char *text)
{
	call->grace_ms = 0;
	if (strcmp(text, "0") == 0 ||
		(cli_scan_duration_ms(text, &call->grace_ms) && call->grace_ms <= GRACE_MAX_MS))
		return true;
	fprintf(stderr,
		"sluice semaphore: invalid --grace \"%s\"; expected a duration of up to 1h\n",
		text);
	return false;
}

enum {
	GIVEN_ENSURE = 256,
	GIVEN_JSON,
	GIVEN_TIMEOUT,
	GIVEN_OVERSHOOT,
	GIVEN_WAIT,
	GIVEN_ATTEMPTS,
	GIVEN_GRACE
};

static const struct option options[] = {{"config", required_argument, NULL, 'c'},
	{"ensure", no_argument, NULL, GIVEN_ENSURE}, {"json", no_argument, NULL, GIVEN_JSON},
	{"timeout", required_argument, NULL, GIVEN_TIMEOUT},
	{"overshoot", required_argument, NULL, GIVEN_OVERSHOOT},
	{"wait", no_argument, NULL, GIVEN_WAIT},
	{"attempts", required_argument, NULL, GIVEN_ATTEMPTS},
	{"grace", required_argument, NULL, GIVEN_GRACE}, {"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0}};

/* Options whose values are looked at when all are there, as --help goes before a wrong one. */
struct given {
	const char *timeout, *overshoot, *attempts, *grace;
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
	case GIVEN_WAIT:
		call->wait = true;
		call->hold_option = "option --wait";
		return true;
	case GIVEN_ATTEMPTS:
		values->attempts = optarg;
		call->hold_option = "option --attempts";
		return true;
	case GIVEN_GRACE:
		values->grace = optarg;
		call->hold_option = "option --grace";
		return true;
	default:
		return false;
	}
}

static bool take_values(struct semaphore_call *call, const struct given *values)
{
	if (values->timeout && !take_timeout(call, values->timeout))
		return false;
	if (values->grace && !take_grace(call, values->grace))
		return false;
	if (values->attempts && !take_number(values->attempts, "--attempts", 1, &call->attempts))
		return false;
	return !values->overshoot ||
	       take_number(values->overshoot, "--overshoot", 0, &call->overshoot);
}

/* False with a message: an option or a command of another verb would have no effect. */
static bool fits(
	const struct semaphore_call *call, const struct semaphore_verb *verb, const char *word)
{
	bool holds = semaphore_verb_takes_command(verb);
	const char *wrong = NULL;

	if (call->ensure && !semaphore_verb_takes_ensure(verb))
		wrong = "option --ensure";
	else if (call->json && holds)
		wrong = "option --json";
	else if (call->hold_option && !holds)
		wrong = call->hold_option;
	else if (call->command && !holds)
		wrong = "command";
	if (wrong)
		fprintf(stderr, "sluice semaphore %s: unexpected %s\n", word, wrong);
	else if (holds && (!call->command || !*call->command))
		fputs("sluice semaphore hold: a command is needed behind --\n", stderr);
	else if (holds && !call->wait && (call->attempts || call->has_timeout))
		fputs("sluice semaphore hold: --timeout and --attempts are of --wait\n", stderr);
	else
		return true;
	return false;
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
	if (!fits(call, verb, words[0]))
		return false;
	call->verb = verb;
	call->name = words[1];
	return !takes_count || take_number(words[2], "COUNT", 1, &call->count);
}

/* What is behind the first `--`. Returns the number of words before it. */
static int take_command(struct semaphore_call *call, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0) {
			call->command = argv + i + 1;
			argv[i] = NULL;
			return i;
		}
	}
	return argc;
}

int cli_semaphore(int argc, char **argv)
{
	struct semaphore_call call = {.path = CLI_DEFAULT_FILE,
		.overshoot = OVERSHOOT_DEFAULT,
		.timeout_ms = LOCK_MS,
		.grace_ms = GRACE_MS};
	struct given values = {0};
	char title[] = "sluice semaphore"; /* for getopt's messages */
	int given;

	argc = take_command(&call, argc, argv);
	argv[0] = title;
	optind = 1;
	while ((given = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
		if (given == 'h') {
			usage_print_command(stdout, cli_semaphore_usage, "semaphore");
			return 0;
		}
		if (!take_option(&call, &values, given)) {
			usage_refer("semaphore");
			return SEMAPHORE_EXIT_USAGE;
		}
	}
	if (!take_values(&call, &values) || !take_words(&call, argv + optind, argc - optind)) {
		usage_refer("semaphore");
		return SEMAPHORE_EXIT_USAGE;
	}
	return semaphore_verb_run(&call);
}
