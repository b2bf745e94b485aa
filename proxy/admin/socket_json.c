#include "admin/socket_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/json_text.h"
#include "base/log.h"
#include "gate/identity.h"
#include "http/forwarded.h"
#include "websocket/sockets.h"
#include "websocket/survey.h"

#define SESSION_BYTES 33

static void set_integer(json_t *object, const char *name, uint64_t value)
{
	json_object_set_new(object, name, json_integer((json_int_t)value));
}

static void set_session(json_t *object, const uint64_t session[2])
{
	char text[SESSION_BYTES];
	bool is_in_one = session[0] != 0 || session[1] != 0;

	snprintf(text, sizeof(text), "%016" PRIx64 "%016" PRIx64, session[0], session[1]);
	json_object_set_new(object, "session", is_in_one ? json_string(text) : json_null());
}

/* Null but of a gateway's: its Connection-Id, and the values that its server has set. */
static void set_gateway(json_t *object, const struct socket_view *view)
{
	bool is_gateway = view->connection[0] != '\0';
	json_t *meta = is_gateway ? json_object() : json_null();

	for (unsigned i = 0; i < view->meta.count; i++) {
		const struct meta_item *item = &view->meta.items[i];
		char *name = strndup(item->text, item->name_len);
		char *value = strndup(item->text + item->name_len, item->value_len);
		json_t *text = value ? admin_json_text(value) : NULL;
		/* A member's name must be UTF-8. */
		if (!name || !text || json_object_set_new(meta, name, text) != 0)
			log_debug("a value of a socket is not shown");
		free(name);
		free(value);
	}
	json_object_set_new(
		object, "connection", is_gateway ? json_string(view->connection) : json_null());
	json_object_set_new(object, "meta", meta);
}

json_t *socket_json(const struct socket_view *view, uint64_t process)
{
	const struct throttle_key key = {.lo = view->caller};
	char id[SOCKET_ID_BYTES], caller[IDENTITY_SHORT_BYTES], address[FORWARDED_ADDRESS_BYTES];
	size_t address_len = forwarded_address_text(view->address, address);

	socket_id_text(process, view->id, id);
	identity_short(&key, caller);
	json_t *object = json_pack("{s:s, s:o, s:o, s:s, s:s#, s:s#}", "id", id, "type",
		admin_json_text(view->type), "route", admin_json_text(view->route), "state",
		view->state, "caller", caller, (int)sizeof(caller), "address", address,
		(int)address_len);
	if (!object)
		return NULL;
	set_session(object, view->session);
	set_integer(object, "age_ms", view->age_ms);
	set_integer(object, "idle_ms", view->idle_ms);
	set_integer(object, "messages_received", view->received.messages);
	set_integer(object, "bytes_received", view->received.bytes);
	set_integer(object, "messages_sent", view->sent.messages);
	set_integer(object, "bytes_sent", view->sent.bytes);
	set_integer(object, "refused", view->refused);
	set_integer(object, "delayed", view->delayed);
	set_integer(object, "queued", view->queued);
	set_integer(object, "queued_bytes", view->queued_bytes);
	set_gateway(object, view);
	return object;
}
