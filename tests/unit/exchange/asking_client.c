/* The client and the server of exchanges: what they see of them, and what must hold then. */
#include "asking_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "exchange/gather.h"
#include "exchange/judge.h"
#include "exchange/reply.h"
#include "exchange/respond.h"
#include "exchange/turn.h"
#include "exchange/turn_place.h"
#include "http1/http1_client.h"
#include "http1/http1_response.h"

static const char *const route_names[] = {"strict", "writes", "free", "table", "shallow", "narrow"};

/* ---- jobs ------------------------------------------------------------------------------------ */

static struct world *world_of(const struct exchange *x)
{
	return CONTAINER_OF(x->worker->node, struct world, node);
}

struct job *job_of(const struct exchange *x)
{
	struct host *host = &world_of(x)->hosts[x->worker->index];

	for (unsigned i = host->job_count; i-- > 0;) {
		if (host->jobs[i].exchange == x)
			return &host->jobs[i];
	}
	fprintf(stderr, "asking: an exchange of no job\n");
	abort();
}

struct session_key job_session(const struct job *job)
{
	const struct throttle_key *key = &job->exchange->gate->verdict.session;

	return (struct session_key){{key->hi, key->lo}};
}

/* Its exchange is about to end, or has just ended. */
static void job_over(struct job *job, bool is_cut)
{
	struct host *host = job->peer->host;
	const struct exchange *x = job->exchange;

	job->status = is_cut ? 0 : x->answer.status;
	job->outcome = x->outcome;
	if (job->in_service && !job->complete)
		atomic_fetch_sub(&host->world->in_service[job->route][job->session], 1);
	job->exchange = NULL;
	host->live--;
	if (is_cut)
		host->cut++;
	else if (job->complete)
		host->served++;
	else if (job->status == 429)
		host->refused++;
	else if (job->outcome && strcmp(job->outcome, "limits unavailable") == 0)
		host->unavailable++;
	else
		host->other++;
}

/* What it was answered is what its limits said. */
static void check_answer(const struct job *job)
{
	bool is_unavailable = job->outcome && strcmp(job->outcome, "limits unavailable") == 0;

	bool is_closed = job->outcome && strcmp(job->outcome, "session closed") == 0;

	if (!job->asked) {
		hold_to(!is_unavailable, "nobody was asked, and nobody is available");
		return;
	}
	hold_to(job->status != 429 || job->said == FAKE_REFUSE, "refused without a reason");
	hold_to(!is_unavailable || job->said == FAKE_UNAVAILABLE, "unavailable without a reason");
	/* Its session may have been closed while the reply was on its way. */
	hold_to(job->said != FAKE_REFUSE || job->status == 429 || is_closed, "not refused");
	hold_to(job->said != FAKE_UNAVAILABLE || is_unavailable || is_closed, "not unavailable");
	hold_to(!job->complete || job->said == FAKE_ADMIT, "served without a verdict");
	hold_to(job->status != 0, "ended without an answer");
	hold_to(!is_unavailable || job->status == 503, "unavailable is 503");
}

struct job *job_of_question(const struct authority_question *question)
{
	const struct worker *worker = CONTAINER_OF(question->questions, struct worker, questions);
	const struct host *host =
		&CONTAINER_OF(worker->node, struct world, node)->hosts[worker->index];

	for (unsigned i = host->job_count; i-- > 0;) {
		const struct exchange *x = host->jobs[i].exchange;
		if (x && question->identity == &x->gate->identity)
			return &host->jobs[i];
	}
	hold_to(false, "a question of no job");
	return NULL;
}

struct job *job_asked(const struct authority_question *question)
{
	struct job *job = job_of_question(question);
	const struct exchange *x = job->exchange;

	/* None at the upstream, unless its turn has come and an old verdict is renewed. */
	hold_to(job->place > 0 && exchange_is_queued(x) && (x->turn.aside || x->turn.renewals > 0),
		"asked without a place");
	hold_to(x->state == EXCHANGE_ASKING && question->number == x->turn.question,
		"asked in another state");
	hold_to(question->route == x->route, "asked about another route");
	hold_to(gate_receipt_is_empty(&x->gate->receipt), "asked what was admitted");
	job->asked = true;
	job->said = FAKE_PENDING;
	return job;
}

struct job *job_admitted(const struct authority_question *question)
{
	struct job *job = job_of_question(question);
	const struct exchange *x = job->exchange;

	hold_to(job->place == 0 && !exchange_is_queued(x) && x->state == EXCHANGE_HEAD,
		"admitted at once with a place");
	hold_to(gate_receipt_is_empty(&x->gate->receipt), "admitted twice");
	job->asked = true;
	job->said = FAKE_ADMIT;
	return job;
}

/* ---- the queue and the server, seen from below ----------------------------------------------- */

enum queue_verdict __real_queue_enter(struct queue *queue, const struct queue_policy *policy,
	struct run_queue *run_queue, struct session_key key, struct ticket *ticket,
	uint64_t now_ns);
enum queue_verdict __wrap_queue_enter(struct queue *queue, const struct queue_policy *policy,
	struct run_queue *run_queue, struct session_key key, struct ticket *ticket,
	uint64_t now_ns);
void __wrap_exchange_forward(struct exchange *x);

enum queue_verdict __wrap_queue_enter(struct queue *queue, const struct queue_policy *policy,
	struct run_queue *run_queue, struct session_key key, struct ticket *ticket, uint64_t now_ns)
{
	struct exchange *x = CONTAINER_OF(ticket, struct exchange, turn.ticket);
	struct job *job = job_of(x);
	uint64_t place = atomic_fetch_add(&world_of(x)->places, 1) + 1;
	enum queue_verdict verdict =
		__real_queue_enter(queue, policy, run_queue, key, ticket, now_ns);

	hold_to(job->place == 0, "entered the queue twice");
	if (verdict == QUEUE_GO || verdict == QUEUE_WAIT)
		job->place = place;
	return verdict;
}

void __wrap_exchange_forward(struct exchange *x)
{
	struct job *job = job_of(x);
	struct world *world = world_of(x);
	struct fake_authority *fake = world->fakes;

	hold_to(x->turn.question == 0, "sent on with its question pending");
	hold_to(x->client && !x->turn.aside, "sent on without a client or a place");
	for (struct exchange *before = x->client->first; before != x; before = before->next)
		hold_to(exchange_is_answered(before), "sent on before those ahead of it");
	hold_to(!job->in_service, "sent on twice");
	exchange_enter(x, EXCHANGE_CONNECTING);
	x->times.started_ns = worker_now_ns(x->worker);
	job->in_service = true;
	atomic_fetch_add(&world->in_service[job->route][job->session], 1);
	job->account = x->gate->receipt.authority ? x->gate->receipt.account : 0;
	for (; job->account && &fake->authority != x->gate->receipt.authority; fake++)
		;
	job->by = job->account ? fake : NULL;
	if (world->serve)
		world->serve(job);
}

void job_answer(struct job *job)
{
	struct exchange *x = job->exchange;

	if (job->answered)
		return;
	job->answered = true;
	x->attempt.reach = REACH_LEFT;
	x->answer.upstream_status = x->answer.status = 200;
	queue_answered(x->worker->node->queue, &x->turn.ticket, worker_now_ns(x->worker));
}

static void write_response(struct exchange *x)
{
	assert_true(flow_append(&downstream_of(x->client)->out, &x->worker->blocks,
		SLICE("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")));
	exchange_end(x);
}

void job_end(struct job *job)
{
	struct exchange *x = job->exchange;
	struct client *client = x->client;

	hold_to(job->in_service && !job->complete, "ends what no server has");
	job_answer(job);
	job->complete = true;
	atomic_fetch_sub(&job->peer->host->world->in_service[job->route][job->session], 1);
	x->response_progress = RESPONSE_RECEIVED;
	exchange_leave_queue(x);
	client_advance(client); /* which writes it when it is the first */
}

/* ---- the client ------------------------------------------------------------------------------ */

static struct peer *peer_of(struct client *client)
{
	return CONTAINER_OF(downstream_of(client), struct peer, d);
}

/* What is written is taken at once. */
static void take(struct peer *peer)
{
	flow_clear(&peer->d.out, &peer->host->worker->blocks);
}

static bool is_behind(struct client *client)
{
	return peer_of(client)->behind;
}

static void run(struct exchange *x)
{
	if (x->state == EXCHANGE_REPLYING)
		reply_if_first(x);
	else if (x->state == EXCHANGE_HELD)
		gather_run(x);
	else if (x->state == EXCHANGE_CONNECTING && x->response_progress == RESPONSE_RECEIVED &&
		 !is_behind(x->client))
		write_response(x);
}

static void run_first(struct client *client)
{
	struct exchange *first;

	while ((first = client->first) != NULL) {
		exchange_next(first);
		if (client->first == first)
			run(first);
		if (client->first == first)
			return;
		client->again = false;
	}
}

static void go_next(struct peer *peer)
{
	struct exchange *next = peer->d.client.first;

	while (next && exchange_is_answered(next))
		next = next->next;
	if (!peer->behind && next && next != peer->d.client.first)
		exchange_next(next);
}

static void advance(struct client *client)
{
	struct peer *peer = peer_of(client);

	if (peer->closed)
		return;
	if (peer->busy) {
		client->again = true;
		return;
	}
	peer->busy = true;
	do {
		client->again = false;
		run_first(client);
		go_next(peer);
	} while (client->again && !peer->closed);
	peer->busy = false;
	take(peer);
}

static void finish(struct client *client)
{
	struct downstream *d = downstream_of(client);

	if (d->state == DOWNSTREAM_OPEN)
		d->state = DOWNSTREAM_FINISHING;
}

static void cut_all(struct peer *peer)
{
	struct client *client = &peer->d.client;

	while (client->first) {
		struct exchange *x = client->first;
		client->first = x->next;
		job_over(job_of(x), true);
		exchange_client_gone(x);
	}
	peer->d.last = NULL;
	peer->d.exchange_count = 0;
}

static void close_peer(struct client *client, const char *why)
{
	struct peer *peer = peer_of(client);

	(void)why;
	if (peer->closed)
		return;
	peer->closed = true;
	cut_all(peer);
	take(peer);
}

static void exchange_ended(struct client *client, struct exchange *x)
{
	struct peer *peer = peer_of(client);
	struct job *job = job_of(x);

	hold_to(client->first == x, "answered out of order");
	client->first = x->next;
	peer->d.exchange_count--;
	job_over(job, false);
	if (peer->host->world->is_alone)
		check_answer(job);
	if (x->close_client)
		cut_all(peer);
	if (!client->first)
		peer->d.last = NULL;
	client->again = true;
}

static void request_read(struct client *client, struct exchange *x, bool upgrades)
{
	(void)client;
	(void)x;
	(void)upgrades;
}

static struct slice body_here(struct client *client)
{
	(void)client;
	return SLICE_NONE;
}

static unsigned frame_request(struct client *client, struct exchange *x)
{
	(void)client;
	return http_frame_request(&x->request, &x->framing);
}

static bool takes_reply(const struct client *client)
{
	return flow_takes_prefix(&((const struct downstream *)client)->out);
}

static bool reply(struct client *client, struct exchange *x)
{
	return http1_reply(&downstream_of(client)->sink, x);
}

static struct body_source *open_body(struct client *client, struct exchange *x)
{
	return http1_source_open(&downstream_of(client)->source, &x->framing);
}

static bool body_is_whole(struct client *client, struct exchange *x)
{
	return http1_body_is_whole(&downstream_of(client)->source, x);
}

static bool body_is_short(struct client *client, const struct exchange *x)
{
	return http1_body_is_short(&downstream_of(client)->source, x);
}

static uint64_t body_memory(struct client *client)
{
	(void)client;
	return 0;
}

static bool is_last(struct client *client, const struct exchange *x)
{
	(void)client;
	return !x->next;
}

/* What is NULL here is for servers that are real. */
static const struct client_calls calls = {
	.advance = advance,
	.finish = finish,
	.close = close_peer,
	.exchange_ended = exchange_ended,
	.frame_request = frame_request,
	.request_read = request_read,
	.body_here = body_here,
	.body_memory = body_memory,
	.open_body = open_body,
	.body_is_whole = body_is_whole,
	.body_is_short = body_is_short,
	.is_behind = is_behind,
	.is_last = is_last,
	.takes_reply = takes_reply,
	.reply = reply,
};

struct peer *peer_new(struct host *host)
{
	unsigned i = 0;

	while (i < host->peer_count && !host->peers[i].closed)
		i++;
	hold_to(i < CLIENTS_MOST, "too many clients");
	host->peer_count += i == host->peer_count;
	struct peer *peer = &host->peers[i];
	struct downstream *d = &peer->d;
	*peer = (struct peer){.host = host};
	d->client.calls = &calls;
	d->client.listener = &host->listener;
	d->client.peer = &d->peer;
	d->worker = host->worker;
	http1_sink_init(&d->sink, &d->stream, &d->out, &host->worker->blocks);
	http1_source_init(&d->source, &d->stream, &d->in, &host->worker->blocks, &d->parser);
	d->wait.deadline.at_ms = d->wait.deadline.armed_ms = DEADLINE_NEVER;
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(0xc0000201)}};
	forwarded_peer_init(&d->peer, (struct sockaddr *)&address, sizeof(address),
		&host->listener.conf->trusted_proxies);
	return peer;
}

static struct exchange *append(struct peer *peer)
{
	struct downstream *d = &peer->d;
	struct exchange *x = exchange_new(peer->host->worker, &d->client);

	assert_non_null(x);
	x->next = NULL;
	if (d->last)
		d->last->next = x;
	else
		d->client.first = x;
	d->last = x;
	d->exchange_count++;
	return x;
}

static struct job *request(
	struct peer *peer, const struct job *like, const char *method, const char *fields)
{
	static const struct http_parser_limits limits = {16384, 8192, 64};
	struct host *host = peer->host;
	struct http_parser parser = {0};
	char text[256];

	if (peer->closed || peer->d.state != DOWNSTREAM_OPEN ||
		peer->d.exchange_count >= CLIENT_DEPTH || host->job_count == JOBS_MOST)
		return NULL;
	int len = snprintf(text, sizeof(text), "%s /%s/ HTTP/1.1\r\nHost: h\r\nS: %u\r\n%s\r\n",
		method, route_names[like->route], like->session, fields);
	struct job *job = &host->jobs[host->job_count++];
	*job = *like;
	job->peer = peer;
	host->live++;
	struct exchange *x = job->exchange = append(peer);
	http_parser_begin_request(&parser, &x->request, &limits);
	assert_int_equal(http_parser_head(&parser, text, (size_t)len), HTTP_PARSE_DONE);
	http_parser_end(&parser);
	peer->busy = true; /* as while a connection reads requests */
	exchange_begin(x, text);
	peer->busy = false;
	advance(&peer->d.client);
	return job;
}

struct job *peer_request(struct peer *peer, enum job_route route, unsigned session, bool is_write)
{
	return request(peer,
		&(struct job){.route = route, .session = session, .is_write = is_write},
		is_write ? "POST" : "GET", is_write ? "Content-Length: 0\r\n" : "");
}

struct job *peer_request_options(struct peer *peer, enum job_route route, unsigned session)
{
	return request(peer, &(struct job){.route = route, .session = session, .ends_here = true},
		"OPTIONS", "Max-Forwards: 0\r\n");
}

struct job *peer_request_body(struct peer *peer, enum job_route route, unsigned bytes)
{
	char fields[40];

	snprintf(fields, sizeof(fields), "Content-Length: %u\r\n", bytes);
	return request(peer, &(struct job){.route = route, .is_write = true}, "POST", fields);
}

void peer_leave(struct peer *peer)
{
	close_peer(&peer->d.client, "left");
}
