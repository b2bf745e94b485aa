/* Keys of callers and the plans that they have, beside the lists in files. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "admin/handlers.h"
#include "admin/json_text.h"
#include "admin/request.h"
#include "admin/revise.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/log.h"
#include "conf/credentials.h"
#include "daemon/daemon.h"
#include "exchange/delay_line.h"
#include "gate/gate.h"
#include "gate/roster.h"

#define KEY_BYTES 4096

/* The key as requests are looked up by it. */
struct key {
	char text[KEY_BYTES];
	struct slice slice;
};

static bool is_control(char c)
{
	return (unsigned char)c < 0x20 || c == 0x7f;
}

/* False with the problem sent. */
static bool read_key(struct admin_request *request, struct key *key)
{
	const struct conf *conf = request->daemon->site->conf;
	struct slice text = slice_of(request->tail);

	if (!conf->plans_key) {
		admin_respond_problem(request, 409, "The configuration has no [plans].");
		return false;
	}
	for (size_t i = 0; i < text.len; i++) {
		if (text.len > KEY_BYTES || is_control(text.at[i])) {
			admin_respond_problem(request, 400,
				"A key has at most 4096 bytes and no control characters.");
			return false;
		}
	}
	memcpy(key->text, text.at, text.len);
	key->slice = (struct slice){key->text, text.len};
	if (credentials_are_keys(conf->plans_key))
		key->slice.len = credentials_write(text, key->text);
	return true;
}

/* NULL: no such plan, with the problem sent. */
static const struct conf_plan *find_plan(struct admin_request *request, const char *name)
{
	const struct conf *conf = request->daemon->site->conf;

	for (size_t i = 0; i < conf->plan_count; i++) {
		if (strcmp(conf->plans[i].name, name) == 0)
			return &conf->plans[i];
	}
	admin_respond_problem(request, 422, "There is no plan of this name.");
	return NULL;
}

/* Its plan's name; NULL: none. `number` is what the roster says of it. */
static const char *plan_of(const struct daemon *daemon, struct slice key, uint32_t *number)
{
	*number = roster_find_text(daemon->roster, key);
	if (*number == ROSTER_PLAN_NONE)
		*number = roster_find_key(daemon->roster, key);
	if (*number != ROSTER_PLAN_NONE)
		return roster_plan_name(daemon->roster, *number);
	const struct conf_plan *listed = gate_listed_plan(daemon->site->gate, key);
	return listed ? listed->name : NULL;
}

const char *admin_plan_of_key(const struct daemon *daemon, const char *text)
{
	const struct conf *conf = daemon->site->conf;
	struct key key = {.slice = slice_of(text)};
	uint32_t number;

	if (!conf->plans_key || key.slice.len > KEY_BYTES)
		return NULL;
	memcpy(key.text, text, key.slice.len);
	key.slice.at = key.text;
	if (credentials_are_keys(conf->plans_key))
		key.slice.len = credentials_write(slice_of(text), key.text);
	return plan_of(daemon, key.slice, &number);
}

static void respond(struct admin_request *request, const struct key *key, unsigned status)
{
	const struct daemon *daemon = request->daemon;
	uint32_t number;
	const char *plan = plan_of(daemon, key->slice, &number);
	const char *source = number == ROSTER_PLAN_NONE ? "file" : "interface";

	if (number == ROSTER_PLAN_NONE && !plan) {
		admin_respond_problem(request, 404, "This key has no plan of its own.");
		return;
	}
	admin_respond_json(request, status,
		json_pack("{s:o, s:s?, s:b, s:s, s:b}", "key", admin_json_text(request->tail),
			"plan", plan, "revoked", number == ROSTER_PLAN_REVOKED, "source", source,
			"persists", roster_is_kept(daemon->roster) || strcmp(source, "file") == 0));
}

void admin_get_key(struct admin_request *request)
{
	struct key key;

	if (read_key(request, &key))
		respond(request, &key, 200);
}

/* False with the problem sent. */
static bool put(struct admin_request *request, struct slice key, uint32_t plan)
{
	char detail[256];

	if (admin_is_leaving(request))
		return false;
	int error = roster_put_key(
		request->daemon->roster, key, plan, clock_wall_ns() / CLOCK_NS_PER_S);
	if (error == 0) {
		delay_changed(node_delays(&request->daemon->node));
		return true;
	}
	snprintf(detail, sizeof(detail), "The change can't be written to disk: %s.",
		strerror(error));
	log_error("keys: %s", detail);
	admin_respond_problem(request, 503, detail);
	return false;
}

/* {"plan": NAME} or {"revoked": true}, and "hashed": true. False with the problem sent. */
static bool read_change(
	struct admin_request *request, const json_t *body, uint32_t *plan, bool *is_hashed)
{
	const char *name = json_string_value(json_object_get(body, "plan"));
	bool is_revoked = json_is_true(json_object_get(body, "revoked"));
	const json_t *hashed = json_object_get(body, "hashed");
	size_t members = (name || is_revoked) + (hashed != NULL);

	*is_hashed = json_is_true(hashed);
	if ((name && is_revoked) || members == 0 || json_object_size(body) != members ||
		(hashed && (!json_is_boolean(hashed) || members == 1))) {
		admin_respond_problem(request, 400,
			"Expected {\"plan\": NAME} or {\"revoked\": true}, optionally with "
			"\"hashed\": true.");
		return false;
	}
	*plan = ROSTER_PLAN_REVOKED;
	if (is_revoked)
		return true;
	if (!find_plan(request, name))
		return false;
	*plan = roster_plan_number(request->daemon->roster, name);
	return true;
}

void admin_put_key(struct admin_request *request)
{
	struct roster *roster = request->daemon->roster;
	char digest[DIGEST_TEXT_BYTES];
	struct key key;
	uint32_t plan;
	bool is_hashed;
	json_t *body = NULL;

	if (!read_key(request, &key) || !(body = admin_object(request)))
		return;
	struct slice stored = key.slice;
	if (read_change(request, body, &plan, &is_hashed)) {
		if (is_hashed && !digest_is_text(key.slice)) {
			digest_text(key.slice, digest);
			stored = (struct slice){digest, sizeof(digest)};
		}
		bool is_new = roster_find_text(roster, stored) == ROSTER_PLAN_NONE;
		/* It is known by one of the two only. */
		bool done = put(request, stored, plan) &&
			    (stored.at == key.slice.at ||
				    roster_find_text(roster, key.slice) == ROSTER_PLAN_NONE ||
				    put(request, key.slice, ROSTER_PLAN_NONE));
		if (done) {
			log_info("keys: a key %s%s by the admin interface",
				plan == ROSTER_PLAN_REVOKED ? "is revoked" : "has plan ",
				plan == ROSTER_PLAN_REVOKED ? "" : roster_plan_name(roster, plan));
			respond(request, &key, is_new ? 201 : 200);
		}
	}
	json_decref(body);
}

void admin_delete_key(struct admin_request *request)
{
	struct roster *roster = request->daemon->roster;
	char digest[DIGEST_TEXT_BYTES];
	struct key key;

	if (!read_key(request, &key))
		return;
	digest_text(key.slice, digest);
	const struct slice texts[] = {key.slice, {digest, sizeof(digest)}};
	unsigned found = 0;
	for (size_t i = 0; i < 2; i++) {
		if (roster_find_text(roster, texts[i]) == ROSTER_PLAN_NONE)
			continue;
		if (!put(request, texts[i], ROSTER_PLAN_NONE))
			return;
		found++;
	}
	if (found == 0) {
		admin_respond_problem(request, 404,
			"This key was not added through this interface; keys of files are revoked "
			"by PUT.");
		return;
	}
	log_info("keys: a key was deleted through the admin interface");
	admin_respond_json(request, 200,
		json_pack("{s:o, s:b}", "key", admin_json_text(request->tail), "deleted", true));
}
