/*
 * Heads of a gateway's requests, and what no client may send to its routes.
 *
 *   handshake's fields, less those of its hop, of its content and of gateways   once
 *   Content-Type, Accept, Connection-Id, Sec-WebSocket-Extensions              once
 *   Meta-*                                                                     each time
 *
 * The head is read as one that came from a client, so that the route's rules for fields, the
 * forwarding fields and the choice of a server are those of any request.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "exchange/read_target.h"
#include "http/parser.h"
#include "http/text_head.h"
#include "gateway/gateway.h"
#include "channels/channels_part.h"

static const struct slice media_type = SLICE("application/websocket-events");

/* ---- fields ---------------------------------------------------------------------------------- */

/* Without case, and with an underscore like a dash: servers that make variables of fields do not
 * tell them apart. */
static char plain(char c)
{
	return c == '_' ? '-' : (char)tolower((unsigned char)c);
}

static bool begins_with(struct slice name, struct slice prefix)
{
	if (name.len < prefix.len)
		return false;
	for (size_t i = 0; i < prefix.len; i++)
		if (plain(name.at[i]) != prefix.at[i])
			return false;
	return true;
}

static bool is(struct slice name, struct slice other)
{
	return name.len == other.len && begins_with(name, other);
}

/* Only gateways send it. */
static bool is_gateways(struct slice name)
{
	return begins_with(name, SLICE("meta-")) || is(name, SLICE("connection-id")) ||
	       is(name, SLICE("grip-sig")) || is(name, SLICE("grip-feature"));
}

/* Of the handshake's hop, of its content and what content it asks for, or composed for each
 * request; also where only a server that reads an underscore as a dash would take it for that. */
static bool is_left_out(struct slice name)
{
	static const struct slice names[] = {SLICE("accept"), SLICE("accept-encoding"),
		SLICE("accept-ranges"), SLICE("expect"), SLICE("host"), SLICE("range"),
		SLICE("sec-websocket-accept"), SLICE("sec-websocket-extensions"),
		SLICE("sec-websocket-key"), SLICE("sec-websocket-version"), SLICE("trailer"),
		SLICE("transfer-encoding")};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (is(name, names[i]))
			return true;
	return begins_with(name, SLICE("content-")) || begins_with(name, SLICE("if-"));
}

static bool names_events(struct slice value)
{
	struct slice element;

	while (slice_next_element(&value, &element)) {
		const char *semicolon = memchr(element.at, ';', element.len);
		if (semicolon)
			element.len = (size_t)(semicolon - element.at);
		if (slice_equal_nocase(slice_trim(element), media_type))
			return true;
	}
	return false;
}

unsigned gateway_screen(struct exchange *x, const char **why)
{
	struct http_head *head = &x->request;

	for (unsigned i = 0; i < head->field_count; i++) {
		struct http_field *field = &head->fields[i];
		struct slice name = http_field_name(head, field);
		if ((is(name, SLICE("content-type")) || is(name, SLICE("accept"))) &&
			names_events(http_field_value(head, field))) {
			*why = "gateway request";
			return 403;
		}
		if (is_gateways(name)) {
			field->hop = true;
			/* The copying of lines looks at each then. */
			head->ids |= HTTP_FIELD_BIT(UNDERSCORED);
		}
	}
	return 0;
}

/* ---- what is the same each time -------------------------------------------------------------- */

static bool does_not_pass(const void *ctx, const struct http_field *field, struct slice name)
{
	(void)ctx;
	(void)field;
	return is_gateways(name) || is_left_out(name);
}

static void compose(
	struct field_sink *sink, struct gateway *gateway, const struct exchange *handshake)
{
	const struct http_head *head = &handshake->request;
	static const struct fields_omitted omitted = {.others = does_not_pass};

	text_head_request(sink, SLICE("POST"), http_head_target(head));
	field_put(sink, SLICE("Host"), handshake->facts.authority);
	field_pass_each(sink, head, &omitted);
	field_put(sink, SLICE("Content-Type"), media_type);
	field_put(sink, SLICE("Accept"), media_type);
	field_put(sink, SLICE("Sec-WebSocket-Extensions"), SLICE("grip"));
	field_put(sink, SLICE("Connection-Id"), (struct slice){gateway->id, GATEWAY_ID_BYTES});
}

static bool keep_path(struct gateway *gateway, const struct exchange *handshake)
{
	struct slice path = handshake->facts.path;

	gateway->path.at = malloc(path.len + 1);
	if (!gateway->path.at)
		return false;
	memcpy(gateway->path.at, path.at, path.len);
	gateway->path.len = path.len;
	return true;
}

bool gateway_compose_head(struct gateway *gateway, const struct exchange *handshake)
{
	/* Each line of the handshake's is written once, without more than it had but the space
	 * behind its colon. */
	size_t room = handshake->request.len + handshake->request.field_count +
		      handshake->facts.authority.len + 512;

	gateway->head.at = malloc(room);
	if (!gateway->head.at || !keep_path(gateway, handshake))
		return false;
	struct field_sink sink = text_head_over(http_out_over(gateway->head.at, room));
	compose(&sink, gateway, handshake);
	gateway->head.len = (size_t)(sink.out.at - gateway->head.at);
	gateway_text_fit(&gateway->head);
	return !sink.out.overflow;
}

/* ---- each time ------------------------------------------------------------------------------- */

/* The fields that this request has besides; their room is counted in own_bytes. */
#define SIGNATURE_NAME "Grip-Sig"
#define REPLAYED_NAME  "Content-Bytes-Replayed"

static void put_own_fields(
	struct field_sink *sink, const struct gateway *gateway, struct slice signature)
{
	meta_put_fields(&gateway->meta, sink);
	if (gateway->replay.sent > 0)
		field_put_number(sink, SLICE(REPLAYED_NAME), gateway->replay.sent);
	if (signature.len > 0)
		field_put(sink, SLICE(SIGNATURE_NAME), signature);
}

static size_t own_bytes(const struct gateway *gateway, struct slice signature)
{
	size_t marks = sizeof(struct field_marks);

	return meta_field_bytes(&gateway->meta) + strlen(REPLAYED_NAME "18446744073709551615") +
	       marks + (signature.len > 0 ? strlen(SIGNATURE_NAME) + signature.len + marks : 0);
}

static bool compose_request(const struct gateway *gateway, struct exchange *x)
{
	struct slice signature = grip_signature(gateway->worker);
	size_t room =
		gateway->head.len + own_bytes(gateway, signature) + sizeof(struct field_marks);
	char *text = exchange_new_head(x, room);

	if (!text)
		return false;
	struct field_sink sink = text_head_over(http_out_over(text, room));
	http_out_slice(&sink.out, (struct slice){gateway->head.at, gateway->head.len});
	put_own_fields(&sink, gateway, signature);
	text_head_end(&sink);
	if (sink.out.overflow)
		return false;
	x->request.len = (uint32_t)(sink.out.at - text);
	return true;
}

/* As if a client had sent it. */
static bool parse(struct exchange *x)
{
	const struct http_parser_limits limits = {0};
	struct http_parser parser = {0};
	uint32_t len = x->request.len;

	http_parser_begin_request(&parser, &x->request, &limits);
	bool is_good = http_parser_head(&parser, x->memory.head, len) == HTTP_PARSE_DONE;
	http_parser_end(&parser);
	return is_good && http_frame_request(&x->request, &x->framing) == 0;
}

/* The handshake's own, or the one that it was given. */
static void name_request(const struct gateway *gateway, struct exchange *x)
{
	const struct site *site = x->use->site;

	x->request_id = SLICE_NONE;
	if (site->request_id_field.len == 0)
		return;
	if (gateway->request_id_len > 0) {
		memcpy(x->text.request_id, gateway->request_id, gateway->request_id_len);
		x->request_id = (struct slice){x->text.request_id, gateway->request_id_len};
		return;
	}
	x->request_id = http_head_find_known(
		&x->request, site->request_id_field_id, site->request_id_field);
}

unsigned gateway_make_request(struct gateway *gateway, struct exchange *x)
{
	uint64_t length = x->framing.length;
	unsigned status;

	if (!compose_request(gateway, x))
		return 503;
	if (!parse(x))
		return 400;
	free(x->memory.path);
	x->memory.path = NULL;
	status = read_target(x);
	if (status != 0)
		return status;
	name_request(gateway, x);
	x->framing = (struct http_framing){
		.body = length > 0 ? HTTP_BODY_LENGTH : HTTP_BODY_NONE,
		.length = length,
		.has_length = true,
		.keep_alive = true,
	};
	x->facts.method = SLICE("POST");
	x->request_progress = REQUEST_READ;
	x->tunnel.gateway = gateway;
	return 0;
}
