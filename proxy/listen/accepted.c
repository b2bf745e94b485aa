#include "listen/accepted.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "gate/gate_connection.h"
#include "http/forwarded.h"
#include "listen/listener.h"
#include "net/tls_stream.h"
#include "record/account.h"
#include "site/certificates.h"
#include "site/site.h"
#include "site/site_use.h"
#include "worker/worker.h"
#include "worker/worker_clock.h"

void accepted_fail(struct listener *listener, struct client_entry *entry)
{
	log_error("listener %s: no memory for a connection", listener->conf->name);
	listener_connection_closed(listener, entry);
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* False without memory. */
static bool keep_places(struct accepted *accepted, const struct throttle_receipt *receipt)
{
	struct client_entry *entry = accepted->entry;

	if (!entry)
		entry = accepted->entry = calloc(1, sizeof(*entry));
	if (entry)
		entry->held = malloc(receipt->count * sizeof(receipt->held[0]));
	if (!entry || !entry->held)
		return false;
	entry->held_count = receipt->count;
	memcpy(entry->held, receipt->held, receipt->count * sizeof(receipt->held[0]));
	return true;
}

/* The first limit that refuses it. */
static const struct conf_limit *refusing_limit(const struct gate_verdict *verdict)
{
	for (unsigned i = 0; i < verdict->limit_count; i++) {
		if (verdict->limits[i].violated && !verdict->limits[i].limit->shadow)
			return verdict->limits[i].limit;
	}
	return NULL;
}

static void refuse(struct listener *listener, struct accepted *accepted,
	const struct forwarded_peer *peer, const struct gate_verdict *verdict)
{
	const struct conf_limit *limit = refusing_limit(verdict);
	unsigned unlogged;

	if (log_pace_may_log(&listener->binding->bound->refused_connections,
		    worker_now_ms(listener->worker), &unlogged))
		log_info("listener %s: connection from %.*s refused by limit %s; %u others since "
			 "the last line",
			listener->conf->name, SLICE_ARGS(forwarded_peer_text(peer)),
			limit ? limit->name : "", unlogged);
	if (limit && limit->refuses_by_close)
		stream_export_close(&accepted->stream);
	else
		stream_export_reset(&accepted->stream);
	listener_connection_closed(listener, accepted->entry);
}

bool accepted_is_admitted(struct listener *listener, struct accepted *accepted)
{
	const struct conf_limits *limits = &listener->conf->limits;
	const struct site *site = listener->use->site;
	struct worker *worker = listener->worker;
	struct throttle_receipt receipt;
	struct gate_verdict verdict;
	struct forwarded_peer peer;

	if (limits->count == 0)
		return true;
	forwarded_peer_init(&peer, (const struct sockaddr *)&accepted->peer, accepted->peer_len,
		&listener->conf->trusted_proxies);
	gate_judge_connection(
		site->gate, limits, peer.address, worker_throttle_ns(worker), &verdict, &receipt);
	const struct judged judged = {worker, site, &verdict, peer.address};
	account_verdict(&judged, account_verdict_of(&verdict, false));
	if (verdict.outcome != GATE_ADMIT) {
		refuse(listener, accepted, &peer, &verdict);
		return false;
	}
	gate_keep_places(site->gate, &verdict, &receipt, worker_throttle_ns(worker));
	if (receipt.count == 0 || keep_places(accepted, &receipt))
		return true;
	throttle_release(worker->node->throttles, &receipt, worker_throttle_ns(worker));
	stream_export_close(&accepted->stream);
	accepted_fail(listener, accepted->entry);
	return false;
}

/* ---- its beginning ----------------------------------------------------------------------------
 */

bool accepted_begin_tls(struct listener *listener, struct accepted *accepted)
{
	if (!listener->certificates)
		return true;
	struct tls_server *server = certificates_take(listener->certificates);
	bool good = tls_accept(server, &accepted->stream);

	tls_server_release(server);
	if (!good)
		accepted_fail(listener, accepted->entry);
	return good;
}

void accepted_take_plain(struct listener *listener, struct accepted *accepted)
{
	for (const struct protocol *const *p = listener->protocols; *p; p++) {
		if ((*p)->take_plain && (listener->conf->protocols & (*p)->bit)) {
			(*p)->take_plain(listener->worker, listener, accepted);
			return;
		}
	}
	listener_protocol(listener, NULL)->take_client(listener->worker, listener, accepted);
}

void accepted_init_peer(const struct accepted *accepted, const struct stream *stream,
	struct forwarded_peer *peer, const struct conf_cidrs *trusted)
{
	const struct client_entry *entry = accepted->entry;

	forwarded_peer_init(
		peer, (const struct sockaddr *)&accepted->peer, accepted->peer_len, trusted);
	peer->is_https = stream_is_encrypted(stream) || (entry && entry->is_https);
	peer->is_unproven = entry && entry->is_unproven;
	if (peer->is_unproven)
		forwarded_peer_judge(peer, trusted);
}

struct tls_facts *accepted_tls(const struct accepted *accepted, const struct stream *stream)
{
	struct client_entry *entry = accepted->entry;
	bool is_reported = entry && entry->tls.identity;

	/* A proxy that ends the client's TLS may speak TLS of its own; one that does not may know
	 * the name in it. */
	if (is_reported && (entry->is_https || !stream_tls(stream)))
		return &entry->tls;
	return stream_tls(stream);
}
