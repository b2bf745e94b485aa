/* See pid_file.h. */
#include "daemon/pid_file.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "conf/conf.h"
#include "daemon/daemon.h"

static bool write_file(const char *path)
{
	FILE *file = fopen(path, "we");

	return file && (fprintf(file, "%ld\n", (long)getpid()) >= 0) & (fclose(file) == 0);
}

bool pid_file_write(const struct conf *conf)
{
	if (!conf->pid_file)
		return true;
	if (write_file(conf->pid_file))
		return true;
	log_error("%s:%u: pid_file = %s: %s", CONF_PLACE_ARGS(conf, conf_line(conf, "pid_file")),
		conf->pid_file, strerror(errno));
	return false;
}

static char *aside_of(const char *path)
{
	char *aside;

	return asprintf(&aside, "%s.oldbin", path) < 0 ? NULL : aside;
}

static const char *path_of(const struct daemon *daemon)
{
	return daemon->begun_with ? daemon->begun_with->pid_file : NULL;
}

void pid_file_put_aside(struct daemon *daemon)
{
	const char *path = path_of(daemon);
	char *aside = path ? aside_of(path) : NULL;

	/* In a folder that may not be written to, the new process writes over the file. */
	if (aside && rename(path, aside) != 0)
		log_warn("pid_file: %s can't be renamed to %s: %s", path, aside, strerror(errno));
	free(aside);
}

void pid_file_take_back(struct daemon *daemon)
{
	const char *path = path_of(daemon);
	char *aside = path ? aside_of(path) : NULL;

	if (aside && rename(aside, path) != 0 && !write_file(path))
		log_error("pid_file: %s can't be written: %s", path, strerror(errno));
	free(aside);
}

/* Does it hold this process's number? */
static bool is_own(const char *path)
{
	FILE *file = fopen(path, "re");
	long pid = 0;

	if (!file)
		return false;
	if (fscanf(file, "%ld", &pid) != 1)
		pid = 0;
	fclose(file);
	return pid == (long)getpid();
}

void pid_file_remove(struct daemon *daemon)
{
	const char *path = path_of(daemon);
	char *aside = path ? aside_of(path) : NULL;

	if (path && is_own(path))
		unlink(path);
	if (aside && is_own(aside))
		unlink(aside);
	free(aside);
}

/* ---- privileges ----------------------------------------------------------------------------- */

/* A reload can't read files that the user may not read: better known now than then. */
static void check_reload_as_user(const struct daemon *daemon, const struct conf *conf)
{
	const struct daemon_service *service = daemon->service;
	struct conf_errors errors = {0};
	struct conf *again = service->load(service->ctx, &errors);

	for (size_t i = 0; i < errors.count; i++)
		log_warn("a reload will fail for user %s: %s", conf->user, errors.items[i].text);
	conf_errors_free(&errors);
	conf_release(again);
}

bool privileges_drop(struct daemon *daemon, const struct conf *conf)
{
	struct passwd *user = conf->user ? getpwnam(conf->user) : NULL;

	if (!conf->user || (user && user->pw_uid == geteuid()))
		return true;
	if (geteuid() != 0) {
		log_warn("%s:%u: user = %s has no effect: only root can change to another user",
			CONF_PLACE_ARGS(conf, conf_line(conf, "user")), conf->user);
		return true;
	}
	if (user)
		log_give_to(daemon->node.log, user->pw_uid, user->pw_gid);
	if (user && initgroups(conf->user, user->pw_gid) == 0 && setgid(user->pw_gid) == 0 &&
		setuid(user->pw_uid) == 0) {
		check_reload_as_user(daemon, conf);
		return true;
	}
	log_error("%s:%u: user = %s: %s", CONF_PLACE_ARGS(conf, conf_line(conf, "user")),
		conf->user, user ? strerror(errno) : "not known");
	return false;
}

/* ---- descriptors ---------------------------------------------------------------------------- */

/* Logs, tables, timers, DNS; a loop and its wake-up. */
#define OWN_DESCRIPTORS      24
#define DESCRIPTORS_A_WORKER 4
/* One in so many is for the files of bodies that are kept. */
#define FILES_SHARE 10

/* As many descriptors as we may have. A client needs one, and one to a server: at most half of what
 * we do not need ourselves go to clients, or requests that were accepted could not be sent on. */
void descriptors_divide(struct daemon *daemon, const struct conf *conf)
{
	struct rlimit limit;
	rlim_t own = OWN_DESCRIPTORS + (rlim_t)DESCRIPTORS_A_WORKER * daemon->node.worker_count;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	if (limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
		getrlimit(RLIMIT_NOFILE, &limit);
	}
	if (limit.rlim_cur > UINT32_MAX)
		limit.rlim_cur = UINT32_MAX;
	for (size_t i = 0; i < conf->listener_count; i++)
		own += (rlim_t)conf->listeners[i].bind_count * daemon->node.worker_count;
	/* With very few, some of each. */
	if (own > limit.rlim_cur / 2)
		own = limit.rlim_cur / 2;
	daemon->listening.descriptor_limit = (unsigned)limit.rlim_cur;
	daemon->node.store.files_max = (unsigned)(limit.rlim_cur - own) / FILES_SHARE;
	own += daemon->node.store.files_max;
	daemon->listening.clients_max = (unsigned)(limit.rlim_cur - own) / 2;
	for (size_t i = 0; i < conf->listener_count; i++) {
		const struct conf_listener *listener = &conf->listeners[i];
		if (listener->max_connections != CONF_CONNECTIONS_AUTO &&
			listener->max_connections > daemon->listening.clients_max)
			log_warn("%s:%u: listener %s: max_connections = %u is more than the limit "
				 "of %u "
				 "descriptors allows, which is %u clients",
				CONF_PLACE_ARGS(conf, listener->line), listener->name,
				listener->max_connections, daemon->listening.descriptor_limit,
				daemon->listening.clients_max);
	}
}
