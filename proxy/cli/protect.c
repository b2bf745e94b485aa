/* See protect.h. */
#include "cli/protect.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/run.h"
#include "cli/table.h"

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

/* ---- protect ini ---------------------------------------------------------------------------- */

/* See protect.h. */

#define COUNT(items) (sizeof(items) / sizeof((items)[0]))

static const struct row {
	const char *section, *key;
	const char *option;
} rows[] = {
	[PROTECT_ADMIN] = {"admin", "bind", "--admin"},
	[PROTECT_LISTEN] = {"listener public", "bind", "--listen"},
	[PROTECT_SERVER] = {"upstream protected", "server", "SERVER"},
	[PROTECT_KEY] = {"limit " PROTECT_LIMIT, "key", "--key"},
	[PROTECT_RATE] = {"limit " PROTECT_LIMIT, "rate", "--rate"},
};
_Static_assert(COUNT(rows) == PROTECT_SETTINGS, "a row for each setting");

/* ---- values ---------------------------------------------------------------------------------- */

static char *format(const char *front, const char *text, size_t len, const char *end)
{
	char *made = NULL;

	return asprintf(&made, "%s%.*s%s", front, (int)len, text, end) < 0 ? NULL : made;
}

/* `:8080` */
static char *with_host(const char *host, const char *text)
{
	return format(text[0] == ':' ? host : "", text, strlen(text), "");
}

/* The host, and the port if there is one, of `http://HOST[:PORT][/]`; all other texts are for the
 * ini's reader to judge. */
static char *server_of(const char *text)
{
	static const char scheme[] = "http://";
	const char *host = text + strlen(scheme);

	if (strncasecmp(text, scheme, strlen(scheme)) != 0)
		return with_host("127.0.0.1", text);
	size_t len = strcspn(host, "/");
	if (len == 0 || strlen(host + len) > 1)
		return strdup(text);
	const char *bracket = memchr(host, ']', len);
	bool has_port = strchr(bracket ? bracket : host, ':') != NULL;

	return format("", host, len, has_port ? "" : ":80");
}

/* The digits behind the last colon, "" where there are none. */
static const char *port_of(const char *address)
{
	const char *colon = strrchr(address, ':');

	return colon && colon[1] && colon[1 + strspn(colon + 1, "0123456789")] == '\0' ? colon + 1
										       : "";
}

static char *admin_of(const char *listen, struct protect_home home)
{
	const char *port = port_of(listen), *dash = *port ? "-" : "";
	char *made = NULL;
	int len;

	if (home.runtime && home.runtime[0] == '/')
		len = asprintf(&made, "unix:%s/sluice%s%s.sock", home.runtime, dash, port);
	else if (home.user == 0)
		len = asprintf(&made, "unix:/run/sluice%s%s.sock", dash, port);
	else
		len = asprintf(&made, "unix:/tmp/sluice-%u/sluice%s%s.sock", home.user, dash, port);
	return len < 0 ? NULL : made;
}

static char *value_of(
	const struct protect *protect, enum protect_setting setting, struct protect_home home)
{
	static const char *const defaults[] = {[PROTECT_LISTEN] = "127.0.0.1:8080",
		[PROTECT_KEY] = "ip",
		[PROTECT_RATE] = "100 per 10s"};
	const char *given = protect->given[setting];

	if (setting == PROTECT_ADMIN)
		return given ? with_host("127.0.0.1", given)
			     : admin_of(protect->values[PROTECT_LISTEN], home);
	if (!given)
		return strdup(defaults[setting]);
	if (setting == PROTECT_SERVER)
		return server_of(given);
	return setting == PROTECT_LISTEN ? with_host("0.0.0.0", given) : strdup(given);
}

/* A line break would begin another setting. */
static bool is_one_line(const char *text)
{
	while (*text && !iscntrl((unsigned char)*text))
		text++;
	return *text == '\0';
}

static bool is_blank(const char *text)
{
	return text[strspn(text, " ")] == '\0';
}

bool protect_settle(struct protect *protect, struct protect_home home)
{
	for (enum protect_setting setting = 0; setting < PROTECT_SETTINGS; setting++) {
		const char *given = protect->given[setting];
		if (!given || (is_one_line(given) && !is_blank(given)))
			continue;
		fprintf(stderr, "sluice protect: %s: %s\n", rows[setting].option,
			is_blank(given) ? "the value is empty; leave it out for the default"
					: "a control character; expected one line of text");
		return false;
	}
	/* The admin socket is named by the listener's port. */
	for (enum protect_setting left = PROTECT_SETTINGS; left > 0; left--) {
		enum protect_setting setting = left - 1;
		protect->values[setting] = value_of(protect, setting, home);
		if (!protect->values[setting]) {
			fputs("sluice protect: no memory\n", stderr);
			return false;
		}
	}
	return true;
}

void protect_clear(struct protect *protect)
{
	for (enum protect_setting setting = 0; setting < PROTECT_SETTINGS; setting++) {
		free(protect->values[setting]);
		protect->values[setting] = NULL;
	}
}

/* ---- text ------------------------------------------------------------------------------------ */

/* A word for a shell. */
static void write_word(FILE *out, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "-_./:@%+=,[]";

	if (*word && word[strspn(word, plain)] == '\0') {
		fputs(word, out);
		return;
	}
	fputc('\'', out);
	for (; *word; word++)
		fputs(*word == '\'' ? "'\\''" : (char[]){*word, '\0'}, out);
	fputc('\'', out);
}

void protect_write_command(FILE *out, const char *program, const struct protect *protect)
{
	static const enum protect_setting order[] = {
		PROTECT_RATE, PROTECT_KEY, PROTECT_LISTEN, PROTECT_ADMIN};

	write_word(out, program);
	fputs(" protect ", out);
	write_word(out, protect->given[PROTECT_SERVER]);
	for (size_t i = 0; i < COUNT(order); i++) {
		if (!protect->given[order[i]])
			continue;
		fprintf(out, " %s ", rows[order[i]].option);
		write_word(out, protect->given[order[i]]);
	}
}

void protect_write_ini(FILE *out, const struct protect *protect)
{
	const char *section = "";

	fputs("# ", out);
	protect_write_command(out, "sluice", protect);
	fputc('\n', out);
	for (enum protect_setting setting = 0; setting < PROTECT_SETTINGS; setting++) {
		const struct row *row = &rows[setting];
		if (strcmp(section, row->section) != 0)
			fprintf(out, "\n[%s]\n", row->section);
		fprintf(out, "%s = %s\n", row->key, protect->values[setting]);
		section = row->section;
	}
	fputs("\n[route all]\nupstream = protected\nlimits = " PROTECT_LIMIT "\n", out);
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* `NAME:LINE: [section] key: what`: the setting that it is about, and `what`; PROTECT_SETTINGS and
 * the text behind the line where it is about none. */
static enum protect_setting setting_of(const char *error, const char **what)
{
	const char *begin = strstr(error, ": [");
	enum protect_setting setting;

	*what = error;
	if (!begin)
		return PROTECT_SETTINGS;
	*what = begin += strlen(": ");
	for (setting = 0; setting < PROTECT_SETTINGS; setting++) {
		char front[64];
		int len = snprintf(front, sizeof(front), "[%s] %s: ", rows[setting].section,
			rows[setting].key);
		if (strncmp(begin, front, (size_t)len) == 0) {
			*what = begin + len;
			break;
		}
	}
	return setting;
}

void protect_print_errors(FILE *out, const struct conf_errors *errors)
{
	/* There is no option for a token. */
	static const char token[] = "; expected a token";

	for (size_t i = 0; i < errors->count; i++) {
		const char *what = NULL;
		enum protect_setting setting = setting_of(errors->items[i].text, &what);
		const char *wants_token = setting == PROTECT_ADMIN ? strstr(what, token) : NULL;
		if (wants_token)
			fprintf(out,
				"sluice protect: --admin: %.*s; expected a port of 127.0.0.1, or "
				"unix:/PATH\n",
				(int)(wants_token - what), what);
		else if (setting < PROTECT_SETTINGS)
			fprintf(out, "sluice protect: %s: %s\n", rows[setting].option, what);
		else
			fprintf(out, "sluice protect: %s\n", what);
	}
	if (errors->incomplete)
		fputs("sluice protect: no memory\n", out);
}
