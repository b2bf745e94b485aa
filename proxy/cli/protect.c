/* See protect.h. */
#include "cli/protect.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/protect_ini.h"
#include "cli/run.h"
#include "cli/usage.h"

/* In messages, where `run` has the file. */
#define NAME "sluice protect"

/* clang-format off */
const char cli_protect_usage[] =
	"       sluice protect SERVER [--rate RATE] [--key KEY] [--listen ADDRESS] [--admin ADDRESS] [--print]\n"
	"                                       serve without a file: limit the callers of one server\n";

static const char help[] =
	"usage: sluice protect SERVER [--rate RATE] [--key KEY] [--listen ADDRESS] [--admin ADDRESS] [--print]\n"
	"\n"
	"Forwards requests to SERVER, and answers 429 to a caller that exceeds the rate. Serves in\n"
	"the foreground until SIGTERM. SERVER is HOST:PORT, :PORT of this machine, http://HOST[:PORT],\n"
	"or unix:/PATH.\n"
	"\n"
	"      --rate RATE        requests of each caller, as '10 per 1s' (default: 100 per 10s)\n"
	"      --key KEY          identifies the caller, as header:X-Api-Key or ip/64 (default: ip)\n"
	"      --listen ADDRESS   ADDRESS:PORT, or :PORT of all of IPv4 (default: 127.0.0.1:8080)\n"
	"      --admin ADDRESS    where commands such as `sluice top` ask; a port of 127.0.0.1 gives\n"
	"                         the dashboard, too (default: a unix socket, which is printed)\n"
	"      --print            print the ini that this stands for, and exit\n"
	"  -h, --help             print this\n";
/* clang-format on */

struct protection {
	struct protect protect;
	char *ini;
	size_t ini_len;
	bool is_started;
};

/* ---- the admin socket's folder --------------------------------------------------------------- */

/* In /tmp the folder must be this user's alone: another one could answer in place of sluice. */
static bool make_folder(const char *admin, unsigned user)
{
	char folder[64];
	struct stat about;

	int len = snprintf(folder, sizeof(folder), "/tmp/sluice-%u", user);
	if (strncmp(admin, "unix:", 5) != 0 || strncmp(admin + 5, folder, (size_t)len) != 0 ||
		admin[5 + len] != '/')
		return true;
	if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
		fprintf(stderr, NAME ": --admin: %s: %s\n", folder, strerror(errno));
		return false;
	}
	if (lstat(folder, &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == user &&
		(about.st_mode & 022) == 0)
		return true;
	fprintf(stderr,
		NAME ": --admin: %s is not a folder that only its user may change; choose "
		     "another place, as --admin unix:/PATH\n",
		folder);
	return false;
}

/* ---- serving --------------------------------------------------------------------------------- */

static struct conf *load(const struct run *run, struct conf_errors *errors)
{
	const struct protection *protection = run->ctx;

	return conf_parse(protection->ini, protection->ini_len, NAME, ".", errors);
}

static void print_command(const char *words, const char *admin)
{
	printf("  %s %s --admin %s\n", program_invocation_name, words, admin);
}

static bool is_chosen_by_callers(const char *key)
{
	return strstr(key, "header:") || strstr(key, "cookie:") || strstr(key, "query:");
}

static void print_start(const struct protect *protect)
{
	char *const *values = protect->values;
	const char *admin = values[PROTECT_ADMIN];

	printf("%s%s forwards to %s. Each caller (%s) gets at most %s.\n",
		strncmp(values[PROTECT_LISTEN], "unix:", 5) == 0 ? "" : "http://",
		values[PROTECT_LISTEN], values[PROTECT_SERVER], values[PROTECT_KEY],
		values[PROTECT_RATE]);
	if (is_chosen_by_callers(values[PROTECT_KEY]))
		puts("Callers choose this key, and each value that they invent gets the rate: "
		     "[plans] with\n"
		     "unknown = refuse in a file admits only the keys that you list.");
	puts("\nIn another terminal:");
	print_command("top", admin);
	print_command("callers --refused", admin);
	/* The rate in force: another one, written by hand, is then of its kind. A valid rate has no
	 * quote. */
	printf("  %s limits set " PROTECT_LIMIT " 'rate=%s' --admin %s\n", program_invocation_name,
		values[PROTECT_RATE], admin);
	if (strncmp(admin, "unix:", 5) != 0)
		printf("  http://%s/ is the dashboard\n", admin);
	puts("The same as a file, for more settings:");
	fputs("  ", stdout);
	protect_write_command(stdout, program_invocation_name, protect);
	puts(" --print\n");
	fflush(stdout);
}

static void on_ready(const struct run *run, bool is_upgrade)
{
	struct protection *protection = run->ctx;

	protection->is_started = true;
	if (!is_upgrade)
		print_start(&protection->protect);
}

/* Makes the ini and reads it. The exit status; 0: `conf` is set. */
static int prepare(struct protection *protection, struct conf **conf)
{
	struct protect_home home = {getenv("XDG_RUNTIME_DIR"), geteuid()};
	const struct run run = {.ctx = protection};
	struct conf_errors errors = {0};

	/* After su it is another user's. */
	if (home.runtime && access(home.runtime, W_OK | X_OK) != 0)
		home.runtime = NULL;
	if (!protect_settle(&protection->protect, home) ||
		!make_folder(protection->protect.values[PROTECT_ADMIN], home.user))
		return 2;
	FILE *out = open_memstream(&protection->ini, &protection->ini_len);
	if (out)
		protect_write_ini(out, &protection->protect);
	if (!out || fclose(out) != 0) {
		fputs(NAME ": no memory\n", stderr);
		return 1;
	}
	*conf = load(&run, &errors);
	protect_print_errors(stderr, &errors);
	conf_errors_free(&errors);
	return *conf ? 0 : 2;
}

static int serve(struct protection *protection, char **argv, struct conf *conf)
{
	char command[] = "protect";
	char *arguments[RUN_ARGUMENTS_MOST + 1] = {command};
	const struct run run = {
		.arguments = arguments, .load = load, .ready = on_ready, .ctx = protection};

	for (size_t i = 1; i < RUN_ARGUMENTS_MOST && argv[i]; i++)
		arguments[i] = argv[i];
	int status = run_serve(&run, conf);
	if (!protection->is_started)
		fputs(NAME ": nothing was started; --listen and --admin choose other addresses\n",
			stderr);
	return status;
}

/* ---- the command line ------------------------------------------------------------------------ */

enum { GIVEN_PRINT = 256, GIVEN_SETTING };

/* False: `status` is the exit status. */
static bool read_command_line(
	struct protect *protect, int argc, char **argv, bool *prints, int *status)
{
	static const struct option options[] = {
		{"rate", required_argument, NULL, GIVEN_SETTING + PROTECT_RATE},
		{"key", required_argument, NULL, GIVEN_SETTING + PROTECT_KEY},
		{"listen", required_argument, NULL, GIVEN_SETTING + PROTECT_LISTEN},
		{"admin", required_argument, NULL, GIVEN_SETTING + PROTECT_ADMIN},
		{"print", no_argument, NULL, GIVEN_PRINT}, {"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0}};
	int given;

	optind = 1; /* argv[0] is `sluice protect` */
	while ((given = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (given == 'h') {
			fputs(help, stdout);
			*status = 0;
			return false;
		}
		if (given == '?') {
			usage_refer("protect");
			*status = 2;
			return false;
		}
		if (given == GIVEN_PRINT)
			*prints = true;
		else
			protect->given[given - GIVEN_SETTING] = optarg;
	}
	protect->given[PROTECT_SERVER] = argv[optind];
	if (argc - optind == 1)
		return true;
	if (argc == optind)
		fputs(NAME ": which server? Expected HOST:PORT, :PORT or http://HOST[:PORT]\n",
			stderr);
	else
		fprintf(stderr, NAME ": unexpected \"%s\"; expected one SERVER\n",
			argv[optind + 1]);
	usage_refer("protect");
	*status = 2;
	return false;
}

int cli_protect(int argc, char **argv)
{
	struct protection protection = {0};
	struct conf *conf = NULL;
	bool prints = false;
	int status = 0;

	if (argc > RUN_ARGUMENTS_MOST) {
		fputs(NAME ": too many words\n", stderr);
		usage_refer("protect");
		return 2;
	}
	if (!read_command_line(&protection.protect, argc, argv, &prints, &status))
		return status;
	status = prepare(&protection, &conf);
	if (status == 2)
		usage_refer("protect");
	if (status == 0 && !prints)
		status = serve(&protection, argv, conf);
	else if (status == 0)
		fputs(protection.ini, stdout);
	if (prints)
		conf_release(conf);
	protect_clear(&protection.protect);
	free(protection.ini);
	return status;
}
