#include "channels/channels_part.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hs256.h"
#include "channels/grip_hold.h"
#include "channels/publish.h"
#include "conf/conf.h"
#include "site/site.h"
#include "site/site_use.h"
#include "worker/worker_clock.h"

/* A signature is made again after a minute, and is good for an hour. */
#define SIGNATURE_FRESH_S 60
#define SIGNATURE_GOOD_S  3600

/* ---- the signature --------------------------------------------------------------------------- */

static void sign(struct grip_signature *signature, const struct conf_grip *grip, uint64_t now_s)
{
	json_t *claims = json_pack("{s:s, s:I, s:b}", "iss", grip->issuer, "exp",
		(json_int_t)(now_s + SIGNATURE_GOOD_S), CONF_GRIP_REQUEST_CLAIM, true);
	char *text = claims ? json_dumps(claims, JSON_COMPACT) : NULL;

	json_decref(claims);
	signature->bytes = 0;
	free(signature->text);
	signature->text = text ? malloc(HS256_TOKEN_BYTES(strlen(text))) : NULL;
	if (signature->text)
		signature->bytes = hs256_sign((struct slice){grip->key.at, grip->key.len},
			slice_of(text), signature->text);
	signature->made_s = now_s;
	free(text);
}

struct slice grip_signature(struct worker *worker)
{
	const struct conf_grip *grip = &site_part(worker)->use->site->conf->grip;
	struct grip_signature *signature = &channels_of(worker)->signature;
	uint64_t now_s = worker_wall_ns(worker) / CLOCK_NS_PER_S;

	if (!grip->key.at)
		return SLICE_NONE;
	if (signature->bytes == 0 || now_s - signature->made_s >= SIGNATURE_FRESH_S)
		sign(signature, grip, now_s);
	return (struct slice){signature->text, signature->bytes};
}

/* ---- its life -------------------------------------------------------------------------------- */

/* On the main thread, as for the other workers. */
static bool make(struct worker *worker, void *site)
{
	struct node *node = worker->node;
	struct worker_channels *all = worker->memory[PART_CHANNELS] = calloc(1, sizeof(*all));

	(void)site;
	if (!all || getentropy(&all->random, sizeof(all->random)) != 0)
		return false;
	if (!node_publishing(node))
		node->shared[NODE_PUBLISHING] = publishing_new(node);
	if (!node_publishing(node))
		return false;
	all->line = publishing_enter(node_publishing(node), worker);
	all->view = publish_line_view(all->line);
	return true;
}

/* The key may be another one. */
static void take_site(struct worker *worker)
{
	channels_of(worker)->signature.bytes = 0;
}

static void command(struct worker *worker, unsigned commands)
{
	struct worker_channels *all = channels_of(worker);

	if (!(commands & WORKER_DRAIN) || all->drains)
		return;
	all->drains = true;
	grip_holds_drain(worker);
}

static void end_turn(struct worker *worker)
{
	publish_line_end_turn(channels_of(worker)->line);
}

static void free_all(struct worker *worker)
{
	struct node *node = worker->node;
	struct worker_channels *all = channels_of(worker);

	if (all && all->line && publishing_leave(node_publishing(node)))
		node->shared[NODE_PUBLISHING] = NULL;
	if (all)
		free(all->signature.text);
	free(all);
}

const struct worker_part channels_part = {
	.make = make,
	.take_site = take_site,
	.command = command,
	.end_turn = end_turn,
	.free = free_all,
};
