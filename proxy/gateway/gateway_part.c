#include "gateway/gateway_part.h"

#include <stdlib.h>

#include "channels/grip_hold.h"
#include "channels/channels_part.h"
#include "exchange/switched.h"
#include "gateway/gateway.h"
#include "tunnel/passage.h"
#include "websocket/read_server.h"
#include "websocket/socket.h"

/* ---- what an exchange calls ------------------------------------------------------------------ */

/* The handshake of a gateway ends, and no socket came of it. */
static void leave(struct exchange *x)
{
	gateway_leave(x->tunnel.gateway, x);
}

static void answered(struct exchange *x)
{
	if (x->kind == EXCHANGE_GATEWAY_HANDSHAKE)
		gateway_opened(x);
	else
		gateway_take_answer(x);
}

static const struct switched_calls exchange_calls = {
	.judge = socket_judge,
	.agree = socket_agree,
	.leave = leave,
	.screen = gateway_screen,
	.open = gateway_open,
	.collects = gateway_collects,
	.answered = answered,
	.holds = grip_holds,
	.held = grip_held,
	.let_go = grip_let_go,
	.signature = grip_signature,
};

/* ---- what a passage calls -------------------------------------------------------------------- */

static bool begin(const struct exchange *x, struct passage *passage)
{
	struct gateway *gateway = x->tunnel.gateway;

	if (!gateway)
		return socket_begin(x, passage, &socket_direct_server, NULL);
	if (!socket_begin(x, passage, &gateway_server, &gateway->client)) {
		gateway_leave(gateway, x);
		return false;
	}
	gateway->socket = passage->socket;
	return true;
}

static void each_request(const struct worker *worker, void (*visit)(const struct exchange *message))
{
	for (const struct gateway *gateway = gateways_of(worker)->first; gateway;
		gateway = gateway->next) {
		for (const struct exchange *x = gateway->client.first; x; x = x->next)
			visit(x);
	}
}

static const struct passage_calls passage_calls = {
	.begin = begin,
	.run = socket_on_run,
	.timeout = socket_on_timeout,
	.session_ends = socket_on_session_ends,
	.session_is_over = socket_on_session_over,
	.end = socket_on_end,
	.each_message = socket_each_message,
	.each_request = each_request,
};

/* ---- the part -------------------------------------------------------------------------------- */

static bool make(struct worker *worker, void *site)
{
	(void)site;
	exchange_part(worker)->switched = &exchange_calls;
	tunnel_part(worker)->calls = &passage_calls;
	worker->memory[PART_GATEWAYS] = calloc(1, sizeof(struct gateways));
	return gateways_of(worker);
}

/* Servers learn of the end of each socket, unless there is no time for it. */
static bool is_done(const struct worker *worker)
{
	return worker->stopping || !gateways_of(worker)->first;
}

static void end_all(struct worker *worker)
{
	while (gateways_of(worker)->first)
		gateway_abort(gateways_of(worker)->first, "shutdown");
}

static void free_all(struct worker *worker)
{
	free(gateways_of(worker));
}

const struct worker_part gateways_part = {
	.make = make,
	.is_done = is_done,
	.work = "sockets of gateways",
	.end = end_all,
	.free = free_all,
};
