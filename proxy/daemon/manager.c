/* See manager.h. */
#include "daemon/manager.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

#include "base/clock.h"
#include "base/log.h"
#include "daemon/daemon.h"
#include "worker/worker.h"

/* What a drain may take beyond shutdown_timeout: joining threads, writing the state. */
#define STOP_GRACE_MS 15000

#ifndef HAVE_SYSTEMD
/* As with libsystemd where NOTIFY_SOCKET is not set. */
static int __attribute__((format(printf, 2, 3))) sd_notifyf(int unset, const char *format, ...)
{
	(void)unset;
	(void)format;
	return 0;
}

static int sd_watchdog_enabled(int unset, uint64_t *us)
{
	(void)unset;
	(void)us;
	return 0;
}
#endif

static bool all_have_answered(const struct daemon *daemon)
{
	for (unsigned i = 0; i < daemon->node.worker_count; i++) {
		/* acquire: pairs with the release in manager_answer */
		if (atomic_load_explicit(&daemon->node.workers[i]->inbox.pings_answered,
			    memory_order_acquire) < daemon->manager.pings)
			return false;
	}
	return true;
}

static void on_watchdog(evutil_socket_t fd, short what, void *arg)
{
	struct daemon *daemon = arg;
	struct manager *manager = &daemon->manager;

	(void)fd;
	(void)what;
	if (!all_have_answered(daemon))
		return;
	if (manager->pings > 0)
		sd_notifyf(0, "WATCHDOG=1");
	manager->pings++;
	for (unsigned i = 0; i < daemon->node.worker_count; i++)
		worker_command(daemon->node.workers[i], WORKER_PING);
}

void manager_answer(struct worker *worker)
{
	/* Only ever one ping is under way, so each answers the one after the last. */
	atomic_fetch_add_explicit(&worker->inbox.pings_answered, 1, memory_order_release);
}

void manager_answer_all(struct worker *worker)
{
	/* release: pairs with the acquire in all_have_answered */
	atomic_store_explicit(&worker->inbox.pings_answered, UINT64_MAX, memory_order_release);
}

void manager_close(struct daemon *daemon)
{
	if (daemon->manager.watchdog)
		event_free(daemon->manager.watchdog);
	daemon->manager.watchdog = NULL;
}

static void begin_watchdog(struct daemon *daemon)
{
	uint64_t us = 0;

	if (sd_watchdog_enabled(0, &us) <= 0)
		return;
	struct timeval period = {
		.tv_sec = (time_t)(us / 4 / 1000000), .tv_usec = (suseconds_t)(us / 4 % 1000000)};
	daemon->manager.watchdog =
		event_new(daemon->node.loop.base, -1, EV_PERSIST, on_watchdog, daemon);
	if (!daemon->manager.watchdog || event_add(daemon->manager.watchdog, &period) != 0)
		log_error("watchdog: %s", strerror(ENOMEM));
	else
		on_watchdog(-1, EV_TIMEOUT, daemon);
}

void manager_ready(struct daemon *daemon)
{
	int notified = sd_notifyf(0, "READY=1\nSTATUS=Serving by %s, %u workers",
		daemon->site->conf->path, daemon->node.worker_count);

	if (notified < 0)
		log_warn("NOTIFY_SOCKET is \"%s\": %s; the service manager is not notified",
			getenv("NOTIFY_SOCKET"), strerror(-notified));
	if (notified > 0)
		begin_watchdog(daemon);
}

void manager_reloading(struct daemon *daemon)
{
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu\nSTATUS=Reading %s",
		(unsigned long long)clock_monotonic_ns() / 1000, daemon->site->conf->path);
}

void manager_reloaded(struct daemon *daemon, bool effective)
{
	if (effective)
		sd_notifyf(0, "READY=1\nSTATUS=Serving by %s, %u workers", daemon->site->conf->path,
			daemon->node.worker_count);
	else
		sd_notifyf(0,
			"READY=1\nSTATUS=Serving by the last good configuration: %s has errors, "
			"which the log lists",
			daemon->site->conf->path);
}

void manager_handed_over(struct daemon *daemon, long pid)
{
	/* The manager hears this process no more, and the new one only after this. */
	sd_notifyf(0, "MAINPID=%ld\nREADY=1\nSTATUS=Process %ld serves by %s", pid, pid,
		daemon->site->conf->path);
}

void manager_stopping(uint64_t timeout_ms)
{
	unsigned long long timeout_us = (timeout_ms + STOP_GRACE_MS) * 1000ULL;

	sd_notifyf(0,
		"STOPPING=1\nEXTEND_TIMEOUT_USEC=%llu\nSTATUS=Draining: finishing requests in "
		"progress, at most %llu ms",
		timeout_us, (unsigned long long)timeout_ms);
}
