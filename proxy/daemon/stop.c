#include "daemon/stop.h"

#include "daemon/binding.h"
#include "daemon/health_share.h"
#include "daemon/relay.h"
#include "daemon/reload.h"
#include "daemon/upgrade.h"

static struct timeval timeval_of(uint64_t ms)
{
	return (struct timeval){
		.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000) * 1000};
}

static void begin_drain(struct relay *relay)
{
	uint64_t timeout_ms = relay->site->conf->shutdown_timeout_ms;
	struct timeval timeout = timeval_of(timeout_ms);

	relay->draining = true;
	log_info("draining: finishing requests in progress, at most %llu ms",
		(unsigned long long)timeout_ms);
	bindings_remove_paths(relay);
	node_command_workers(&relay->node, WORKER_DRAIN);
	if (event_add(relay->stop_timer, &timeout) != 0)
		log_error("no memory: shutdown_timeout does not bound the drain");
}

static void on_stop_timer(evutil_socket_t fd, short what, void *arg)
{
	struct relay *relay = arg;

	(void)fd;
	(void)what;
	if (!relay->draining) {
		begin_drain(relay); /* the lame duck's time is over */
		return;
	}
	log_warn("shutdown_timeout reached: closing the remaining connections");
	relay->exit_status = 1;
	node_command_workers(&relay->node, WORKER_STOP);
}

/* From here on nothing new begins: not a reload, nor an upgrade, and readiness says no. */
static void begin_stop(struct relay *relay)
{
	uint64_t lame_ms = relay->site->conf->lame_duck_ms;
	struct timeval lame = timeval_of(lame_ms);

	relay->node.stopping = true;
	upgrade_cancel(relay);
	reload_cancel(relay);
	health_share_leave(relay);
	if (!relay->handed_over)
		manager_stopping(lame_ms + relay->site->conf->shutdown_timeout_ms);
	if (lame_ms > 0 && event_add(relay->stop_timer, &lame) == 0)
		log_info("lame duck: serving for %llu ms more while /readyz answers 503",
			(unsigned long long)lame_ms);
	else
		begin_drain(relay);
}

void stop_by_signal(struct relay *relay)
{
	bool is_first = !relay->was_signalled;

	relay->was_signalled = true;
	if (!relay->node.stopping) {
		begin_stop(relay);
	} else if (!relay->draining) {
		begin_drain(relay);
	} else if (!is_first) {
		log_warn("second stop signal: closing the remaining connections");
		relay->exit_status = 1;
		node_command_workers(&relay->node, WORKER_STOP);
	}
}

void stop_hand_over(struct relay *relay, pid_t pid)
{
	manager_handed_over(relay, (long)pid);
	relay->handed_over = true;
	node_command_workers(&relay->node, WORKER_HAND_OVER);
	begin_stop(relay);
}

bool stop_prepare(struct relay *relay)
{
	relay->stop_timer = evtimer_new(relay->node.loop.base, on_stop_timer, relay);
	return relay->stop_timer != NULL;
}

void stop_end(struct relay *relay)
{
	if (relay->stop_timer)
		event_free(relay->stop_timer);
}
