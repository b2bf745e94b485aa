#include "http/framing.h"

/* 1*DIGIT without sign, list or overflow; one digit more than needed is refused with the rest. */
static bool parse_length(struct slice text, uint64_t *length)
{
	uint64_t value = 0;

	if (text.len == 0 || text.len > 19)
		return false;
	for (size_t i = 0; i < text.len; i++) {
		if (text.at[i] < '0' || text.at[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(text.at[i] - '0');
	}
	if (value > INT64_MAX)
		return false;
	*length = value;
	return true;
}

struct seen {
	unsigned lengths, codings, hosts, upgrades, expects, options;
	uint64_t length;
	bool bad_length;
	bool chunked;
	bool close, keep_alive, connection_upgrade;
};

/* More options than any sender of sense has: beyond these the message is refused, so that what a
 * head costs is bounded by its fields. */
#define CONNECTION_OPTIONS 32

/* Marks the fields with that name as of this hop. */
static void mark_named(struct http_head *head, struct slice name)
{
	for (unsigned i = 0; i < head->field_count; i++) {
		struct http_field *field = &head->fields[i];
		if (field->name_len == name.len &&
			slice_equal_nocase(name, http_field_name(head, field)))
			field->hop = true;
	}
}

static void see_connection(struct http_head *head, struct seen *seen, struct slice value)
{
	struct slice option;

	while (seen->options <= CONNECTION_OPTIONS && slice_next_element(&value, &option)) {
		seen->options++;
		/* The three common ones need no walk over the fields: two name no field, and
		 * Upgrade is of the hop anyway. */
		if (slice_equal_nocase(option, SLICE("keep-alive")))
			seen->keep_alive = true;
		else if (slice_equal_nocase(option, SLICE("close")))
			seen->close = true;
		else if (slice_equal_nocase(option, SLICE("upgrade")))
			seen->connection_upgrade = true;
		else
			mark_named(head, option);
	}
}

#define BIT(id) HTTP_FIELD_BIT(id)

/* The fields that say something about the message's end or the connection. */
static const uint32_t looked_at = HTTP_HOP_FIELDS | BIT(HOST) | BIT(EXPECT);

static void see_length(struct http_head *head, struct http_field *field, struct seen *seen)
{
	uint64_t length = 0;

	field->hop = true;
	if (!parse_length(http_field_value(head, field), &length) ||
		(seen->lengths > 0 && length != seen->length))
		seen->bad_length = true;
	seen->length = length;
	seen->lengths++;
}

static void see_fields(struct http_head *head, struct seen *seen)
{
	uint32_t here = head->ids & looked_at;

	/* Mostly a host and a length at most, each of them once. */
	if (!(here & ~(BIT(HOST) | BIT(CONTENT_LENGTH)) || head->repeated & looked_at)) {
		seen->hosts = http_head_has(head, HTTP_FIELD_HOST);
		if (http_head_has(head, HTTP_FIELD_CONTENT_LENGTH))
			see_length(
				head, &head->fields[head->first[HTTP_FIELD_CONTENT_LENGTH]], seen);
		return;
	}
	for (unsigned i = 0; i < head->field_count; i++) {
		struct http_field *field = &head->fields[i];
		if (!(looked_at >> field->id & 1))
			continue;
		struct slice value = http_field_value(head, field);

		switch (field->id) {
		case HTTP_FIELD_CONTENT_LENGTH:
			see_length(head, field, seen);
			break;
		case HTTP_FIELD_TRANSFER_ENCODING:
			field->hop = true;
			seen->codings++;
			seen->chunked = slice_equal_nocase(value, SLICE("chunked"));
			break;
		case HTTP_FIELD_CONNECTION:
			field->hop = true;
			see_connection(head, seen, value);
			break;
		case HTTP_FIELD_HOST:
			seen->hosts++;
			break;
		case HTTP_FIELD_UPGRADE:
			field->hop = true;
			seen->upgrades++;
			break;
		case HTTP_FIELD_EXPECT:
			seen->expects++;
			break;
		case HTTP_FIELD_KEEP_ALIVE:
		case HTTP_FIELD_PROXY_CONNECTION:
		case HTTP_FIELD_TE:
			field->hop = true;
			break;
		default: /* end to end */
			break;
		}
	}
}

/* Is the message of HTTP/1.0? */
static bool is_old(const struct http_head *head)
{
	return head->major == 1 && head->minor == 0;
}

static bool keeps_alive(const struct http_head *head, const struct seen *seen)
{
	return !seen->close && (!is_old(head) || seen->keep_alive);
}

unsigned http_frame_request(struct http_head *head, struct http_framing *framing)
{
	struct seen seen = {0};

	see_fields(head, &seen);
	*framing = (struct http_framing){.keep_alive = keeps_alive(head, &seen)};
	if (seen.bad_length || seen.lengths > 1 || seen.options > CONNECTION_OPTIONS)
		return 400;
	if (seen.hosts > 1 || (seen.hosts == 0 && !is_old(head)))
		return 400;
	if (seen.codings > 0) {
		/* RFC 9112 section 6.1: both fields, or a coding from an HTTP/1.0 peer, is how
		 * requests are smuggled. */
		if (seen.lengths > 0 || is_old(head) || seen.codings > 1)
			return 400;
		if (!seen.chunked) {
			struct slice value = http_head_find(head, HTTP_FIELD_TRANSFER_ENCODING);
			/* `gzip, chunked` is well formed but not understood; all else is broken. */
			return value.len > 9 && slice_equal_nocase(
							(struct slice){value.at + value.len - 9, 9},
							SLICE(", chunked"))
				       ? 501
				       : 400;
		}
		framing->body = HTTP_BODY_CHUNKED;
	} else if (seen.lengths == 1) {
		framing->has_length = true;
		framing->length = seen.length;
		framing->body = seen.length > 0 ? HTTP_BODY_LENGTH : HTTP_BODY_NONE;
	}
	if (seen.expects > 0 && !is_old(head)) {
		if (!slice_equal_nocase(
			    http_head_find(head, HTTP_FIELD_EXPECT), SLICE("100-continue")))
			return 417;
		framing->expects_continue = framing->body != HTTP_BODY_NONE;
	}
	framing->upgrade = seen.upgrades > 0 && seen.connection_upgrade && !is_old(head);
	return 0;
}

bool http_frame_response(
	struct http_head *head, enum http_method request_method, struct http_framing *framing)
{
	struct seen seen = {0};

	see_fields(head, &seen);
	*framing = (struct http_framing){.keep_alive = keeps_alive(head, &seen),
		.upgrade = seen.upgrades > 0 && seen.connection_upgrade};
	if (seen.bad_length || seen.options > CONNECTION_OPTIONS ||
		(seen.codings > 0 && seen.lengths > 0) || seen.codings > 1)
		return false;
	framing->has_length = seen.lengths > 0;
	framing->length = seen.length;
	/* RFC 9112 section 6.3, rules 1 to 8. */
	if (request_method == HTTP_METHOD_HEAD || head->status < 200 || head->status == 204 ||
		head->status == 304) {
		framing->body = HTTP_BODY_NONE;
	} else if (seen.codings > 0) {
		if (!seen.chunked || is_old(head))
			return false;
		framing->body = HTTP_BODY_CHUNKED;
	} else if (seen.lengths > 0) {
		framing->body = seen.length > 0 ? HTTP_BODY_LENGTH : HTTP_BODY_NONE;
	} else {
		framing->body = HTTP_BODY_UNTIL_CLOSE;
		framing->keep_alive = false;
	}
	return true;
}
