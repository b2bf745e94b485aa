/* See check.h. */
#include "cli/check.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/run.h"
#include "cli/table.h"
#include "conf/conf.h"
#include "conf/reference.h"
#include "site/certificates.h"
#include "site/servers_tls.h"

/* ---- places --------------------------------------------------------------------------------- */

/*
 * Can what the configuration names be written? Its folders and files are asked for their
 * permissions, as access(2) does: nothing is made, opened or changed, so that a running sluice that
 * uses them is not disturbed.
 */

/* What libthrottle keeps in the folder `state`. */
#define STATE_FILE "throttle.table"

/* `file:line: [sluice] key: `; without a line when the file does not set it */
static void print_front(const struct conf *conf, const char *kind, const char *key)
{
	unsigned line = conf_line(conf, key);

	if (line > 0)
		fprintf(stderr, "%s:%u: %s[sluice] %s: ", CONF_PLACE_ARGS(conf, line), kind, key);
	else
		fprintf(stderr, "%s: %s[sluice] %s: ", conf->path, kind, key);
}

/* The name of who we are now, for messages; in `out` when the user has none. */
static const char *whoami(char out[32])
{
	const struct passwd *user = getpwuid(geteuid());

	if (user)
		return user->pw_name;
	snprintf(out, 32, "user %ld", (long)geteuid());
	return out;
}

/* 0, or why a file can't be made in the folder: errno. */
static int try_folder(const char *path)
{
	struct stat about;

	if (stat(path, &about) != 0)
		return errno;
	if (!S_ISDIR(about.st_mode))
		return ENOTDIR;
	return faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

/* The folder of a file, in `folder`. */
static const char *folder_of(const char *path, char folder[PATH_MAX])
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return ".";
	snprintf(folder, PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path), path);
	return folder;
}

/* 0, or why the file can neither be used so (R_OK, W_OK) nor, when it is not there, made: errno. */
static int try_file(const char *path, int mode)
{
	char folder[PATH_MAX];

	if (faccessat(AT_FDCWD, path, mode, AT_EACCESS) == 0)
		return 0;
	return errno == ENOENT ? try_folder(folder_of(path, folder)) : errno;
}

static bool check_file(const struct conf *conf, const char *key, const char *path)
{
	char name[32];
	int error = path ? try_file(path, W_OK) : 0;

	if (error == 0)
		return true;
	print_front(conf, "", key);
	fprintf(stderr, "%s can't be written by %s: %s\n", path, whoami(name), strerror(error));
	return false;
}

static bool check_log(const struct conf *conf, const char *key, const struct log_target *target)
{
	return target->sink != LOG_SINK_FILE || check_file(conf, key, target->path);
}

/* A socket is made again at each start. */
static bool check_sockets(const struct conf_listener *listener, const struct conf *conf)
{
	char folder[PATH_MAX], name[32];
	bool good = true;

	for (size_t i = 0; i < listener->bind_count; i++) {
		const struct conf_address *bind = &listener->binds[i];
		const char *place;
		int error;

		if (bind->kind != CONF_ADDRESS_UNIX)
			continue;
		place = folder_of(bind->host, folder);
		error = try_folder(place);
		if (error == 0)
			continue;
		fprintf(stderr,
			"%s:%u: [listener %s] bind: no socket can be made in %s by %s: %s\n",
			CONF_PLACE_ARGS(conf, bind->line), listener->name, place, whoami(name),
			strerror(error));
		good = false;
	}
	return good;
}

/* Without state_required the daemon continues without it, so that it is only a warning. */
static bool check_state(const struct conf *conf)
{
	char path[PATH_MAX], name[32];
	int error = 0;

	if (!conf->state)
		return true;
	snprintf(path, sizeof(path), "%s", conf->state);
	error = try_folder(path);
	if (error == 0 &&
		(size_t)snprintf(path, sizeof(path), "%s/" STATE_FILE, conf->state) < sizeof(path))
		error = try_file(path, R_OK | W_OK);
	if (error == 0)
		return true;
	print_front(conf, conf->state_required ? "" : "warning: ", "state");
	fprintf(stderr, "%s can't be used by %s: %s; %s\n", path, whoami(name), strerror(error),
		conf->state_required ? "refusing to start (state_required = on)"
				     : "counting would be in memory only, from zero at each start");
	return !conf->state_required;
}

/* The daemon continues without files, so that it is only a warning. */
static void check_buffering(const struct conf *conf)
{
	char name[32];
	int error = conf->body_store.disk_bytes > 0 ? try_folder(conf->body_store.folder) : 0;

	if (error == 0)
		return;
	print_front(conf, "warning: ", "buffering_folder");
	fprintf(stderr, "%s can't be used by %s: %s; bodies would be kept in memory only\n",
		conf->body_store.folder, whoami(name), strerror(error));
}

static bool check_as_now(const struct conf *conf)
{
	bool state = check_state(conf), pid_file = check_file(conf, "pid_file", conf->pid_file);

	check_buffering(conf);
	return state && pid_file;
}

/* As the daemon does it. */
static bool become(const struct conf *conf)
{
	const struct passwd *user = getpwnam(conf->user);

	if (user && initgroups(conf->user, user->pw_gid) == 0 && setgid(user->pw_gid) == 0 &&
		setuid(user->pw_uid) == 0)
		return true;
	print_front(conf, "", "user");
	fprintf(stderr, "%s: %s\n", conf->user, user ? strerror(errno) : "not known");
	return false;
}

/* In a process of its own, as there is no way back. */
static bool check_as_user(const struct conf *conf)
{
	pid_t child;
	int status;

	fflush(NULL); /* else it would be written twice */
	child = fork();
	if (child == 0) {
		status = become(conf) && check_as_now(conf) ? 0 : 1;
		fflush(stderr);
		_exit(status);
	}
	while (child > 0 && waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			child = -1;
	if (child < 0) {
		print_front(conf, "", "user");
		fprintf(stderr, "cannot check the files that %s may write: %s\n", conf->user,
			strerror(errno));
		return false;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool is_anything_written(const struct conf *conf)
{
	if (conf->state || conf->pid_file || conf->logs.error.sink == LOG_SINK_FILE ||
		conf->logs.access.sink == LOG_SINK_FILE)
		return true;
	for (size_t i = 0; i < conf->listener_count; i++)
		for (size_t j = 0; j < conf->listeners[i].bind_count; j++)
			if (conf->listeners[i].binds[j].kind == CONF_ADDRESS_UNIX)
				return true;
	return false;
}

/*
 * Tests the log files and the folders of sockets for the calling user, and `state` and `pid_file`
 * for whom the daemon will be: `user` when root starts it. When root does not call but `user` is
 * set, that can't be known; then a note reports that nothing was tested. Returns whether the start
 * will not fail by one of them, with what is wrong on stderr, one a line, with file and line.
 */
static bool cli_check_places(const struct conf *conf)
{
	bool good = true;

	if (conf->user && geteuid() != 0) {
		if (is_anything_written(conf)) {
			print_front(conf, "note: ", "user");
			fprintf(stderr,
				"the files that %s may write were not checked, as only root can "
				"check them; run this check as root\n",
				conf->user);
		}
		return true;
	}
	good = check_log(conf, "error_log", &conf->logs.error) && good;
	good = check_log(conf, "access_log", &conf->logs.access) && good;
	for (size_t i = 0; i < conf->listener_count; i++)
		good = check_sockets(&conf->listeners[i], conf) && good;
	return (conf->user ? check_as_user(conf) : check_as_now(conf)) && good;
}

/* ---- check ---------------------------------------------------------------------------------- */

const char cli_check_help[] =
	"usage: sluice check [-c FILE] [--dump]\n"
	"       sluice check --keys\n"
	"\n"
	"Reads a configuration and lists every error in it, with file and line, and the files\n"
	"and folders in it that can't be written.\n"
	"Exits with 0 if there are no errors, otherwise with 1; warnings do not count.\n"
	"\n"
	"  -c, --config FILE  the configuration (default: " CLI_DEFAULT_FILE ")\n"
	"      --dump         print the configuration in effect, with all defaults\n"
	"      --keys         print all sections and keys, with types and defaults\n"
	"  -h, --help         print this\n";

static const struct conf *load(const char *path)
{
	struct conf *conf = cli_load(path);

	for (size_t i = 0; conf && i < conf->warning_count; i++)
		fprintf(stderr, "%s:%u: warning: %s\n",
			CONF_PLACE_ARGS(conf, conf->warnings[i].line), conf->warnings[i].text);
	return conf;
}

static void print_count(size_t count, const char *one, const char *many, const char *after)
{
	printf("%zu %s%s", count, count == 1 ? one : many, after);
}

int cli_check(const char *path)
{
	const struct conf *conf = load(path);

	if (!conf)
		return 1;
	bool certificates_are_good = certificates_check(conf);
	certificates_are_good &= servers_tls_check(conf);
	if (!cli_check_places(conf) || !certificates_are_good) {
		conf_release(conf);
		return 1;
	}
	printf("%s: ok (", path);
	print_count(conf->listener_count, "listener", "listeners", ", ");
	print_count(conf->upstream_count, "upstream", "upstreams", ", ");
	print_count(conf->route_count, "route", "routes", ", ");
	print_count(conf->limit_count, "limit", "limits", ", ");
	print_count(conf->plan_count, "plan", "plans", ")\n");
	conf_release(conf);
	return 0;
}

int cli_check_dump(const char *path)
{
	const struct conf *conf = load(path);

	if (!conf)
		return 1;
	reference_dump(conf, stdout);
	conf_release(conf);
	return 0;
}

int cli_check_run(int argc, char **argv)
{
	enum { LONG_DUMP = 256, LONG_KEYS };
	static const struct option long_options[] = {{"config", required_argument, NULL, 'c'},
		{"dump", no_argument, NULL, LONG_DUMP}, {"keys", no_argument, NULL, LONG_KEYS},
		{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
	const char *path = CLI_DEFAULT_FILE;
	bool dump = false;
	int given;

	optind = 1; /* argv[0] is `sluice check` */
	while ((given = getopt_long(argc, argv, "c:h", long_options, NULL)) != -1) {
		switch (given) {
		case 'c':
			path = optarg;
			break;
		case LONG_DUMP:
			dump = true;
			break;
		case LONG_KEYS:
			reference_print_text(stdout);
			return 0;
		case 'h':
			fputs(cli_check_help, stdout);
			return 0;
		default:
			usage_refer("check");
			return 2;
		}
	}
	if (cli_has_rest("check", argc, argv))
		return 2;
	return dump ? cli_check_dump(path) : cli_check(path);
}
