#include "daemon/certificate_watch.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/daemon.h"
#include "daemon/handover.h"
#include "daemon/worker_parts.h"
#include "net/tls_tickets.h"
#include "site/certificates.h"
#include "site/servers_tls.h"

/* A pair is two files, and more may follow. */
#define SOON_MS    300
#define LOOK_S     60
#define LINKS_MOST 40 /* as the kernel follows */

#define EVENTS                                                                                     \
	(IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CLOSE_WRITE | IN_ATTRIB |        \
		IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)

static void set_timer(struct certificate_watch *watch, bool is_soon)
{
	const struct timeval soon = {.tv_usec = SOON_MS * 1000L}, later = {.tv_sec = LOOK_S};

	watch->is_soon = is_soon;
	event_add(watch->timer, is_soon ? &soon : &later);
}

static void on_changed(evutil_socket_t fd, short what, void *arg)
{
	struct daemon *daemon = arg;
	char events[4096];

	(void)what;
	while (read(fd, events, sizeof(events)) > 0)
		continue;
	if (!daemon->watch.is_soon)
		set_timer(&daemon->watch, true);
}

/* The folder of a path's last part. */
static void watch_folder(int inotify, const char *path, size_t len)
{
	char folder[PATH_MAX];

	while (len > 0 && path[len - 1] != '/')
		len--;
	if (len == 0)
		snprintf(folder, sizeof(folder), ".");
	else
		snprintf(folder, sizeof(folder), "%.*s", (int)len, path);
	inotify_add_watch(inotify, folder, EVENTS);
}

/* Is the path up to `end` a link? Then its folder is watched, and its target takes its place. */
static bool follow(int inotify, char path[static PATH_MAX], size_t end)
{
	char link[PATH_MAX], target[PATH_MAX], whole[PATH_MAX];
	size_t folder = end;

	snprintf(link, sizeof(link), "%.*s", (int)end, path);
	ssize_t len = readlink(link, target, sizeof(target) - 1);
	if (len <= 0)
		return false;
	watch_folder(inotify, path, end);
	target[len] = '\0';
	while (folder > 0 && path[folder - 1] != '/')
		folder--;
	int used = snprintf(whole, sizeof(whole), "%.*s%s%s", target[0] == '/' ? 0 : (int)folder,
		path, target, path + end);
	if (used < 0 || (size_t)used >= sizeof(whole))
		return false;
	memcpy(path, whole, (size_t)used + 1);
	return true;
}

static void watch_file(void *user, const char *file)
{
	const int *inotify = user;
	char path[PATH_MAX];
	unsigned links = 0;
	size_t end = 0;

	snprintf(path, sizeof(path), "%s", file);
	while (path[end] && links < LINKS_MOST) {
		end += 1 + strcspn(path + end + 1, "/");
		if (follow(*inotify, path, end)) {
			links++;
			end = 0;
		}
	}
	watch_folder(*inotify, path, end);
}

static void end_watches(struct certificate_watch *watch)
{
	if (watch->changed)
		event_free(watch->changed);
	if (watch->inotify >= 0)
		close(watch->inotify);
	watch->changed = NULL;
	watch->inotify = -1;
}

static void watch_files(struct daemon *daemon)
{
	struct certificate_watch *watch = &daemon->watch;
	const struct conf *conf = daemon->site->conf;

	const struct conf_admin *admin = &daemon->begun_with->admin;
	bool has_any = admin->certificate != NULL;

	end_watches(watch);
	for (size_t i = 0; i < conf->listener_count; i++)
		has_any |= conf->listeners[i].tls.certificates.count > 0;
	if (has_any)
		watch->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	for (size_t i = 0; watch->inotify >= 0 && i < conf->listener_count; i++)
		certificates_each_file(&conf->listeners[i], watch_file, &watch->inotify);
	if (watch->inotify >= 0 && admin->certificate)
		watch_file(&watch->inotify, admin->certificate);
	if (watch->inotify >= 0 && admin->certificate_key)
		watch_file(&watch->inotify, admin->certificate_key);
	if (watch->inotify < 0)
		return;
	watch->changed = event_new(
		daemon->node.loop.base, watch->inotify, EV_READ | EV_PERSIST, on_changed, daemon);
	if (!watch->changed || event_add(watch->changed, NULL) != 0)
		end_watches(watch);
}

void certificate_watch_look(struct daemon *daemon)
{
	const struct conf_secret *secret = &daemon->site->conf->fleet.secret;

	set_timer(&daemon->watch, false);
	tls_tickets_set_secret(daemon->tls.tickets, secret->at, secret->len);
	if (daemon->reload)
		return;      /* it has read them, and they are not in use yet */
	watch_files(daemon); /* first: what changes while they are read is seen */
	servers_tls_look_at_links(daemon->site, &daemon->node.links_tls);
	if (daemon->watch.looked)
		daemon->watch.looked->run(daemon->watch.looked);
	certificates_look(daemon->site, &daemon->tls, clock_wall_ns() / CLOCK_NS_PER_S);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	certificate_watch_look(arg);
}

bool certificate_watch_begin(struct daemon *daemon)
{
	daemon->watch.inotify = -1;
	daemon->watch.timer = evtimer_new(daemon->node.loop.base, on_timer, daemon);
	daemon->tls = (struct certificates_terms){
		worker_protocol_names, tls_tickets_new(clock_wall_ns() / CLOCK_NS_PER_S)};
	if (!daemon->watch.timer || !daemon->tls.tickets)
		return false;
	if (daemon->inherited && *daemon->inherited->tickets &&
		!tls_tickets_read(daemon->tls.tickets, daemon->inherited->tickets))
		log_warn("the process before has other keys of TLS tickets");
	return true;
}

void certificate_watch_end(struct daemon *daemon)
{
	tls_tickets_free(daemon->tls.tickets);
	tls_client_slot_set(&daemon->node.links_tls, NULL);
	if (!daemon->watch.timer)
		return;
	end_watches(&daemon->watch);
	event_free(daemon->watch.timer);
	daemon->watch.timer = NULL;
}
