#include "daemon/privileges.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "daemon/daemon.h"

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
