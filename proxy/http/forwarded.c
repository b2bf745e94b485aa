/* The fields that report the earlier hops to the upstream. The walk is in forwarded_walk.c. */
#include "http/forwarded.h"

/* Appends all field lines of one name, joined; returns whether there was anything. */
static bool append_fields(struct http_out *out, const struct http_head *head, enum http_field_id id)
{
	bool any = false;

	for (unsigned i = 0; i < head->field_count; i++) {
		struct slice value = http_field_value(head, &head->fields[i]);
		if (head->fields[i].id != id || value.len == 0)
			continue;
		if (any)
			http_out_slice(out, SLICE(", "));
		http_out_slice(out, value);
		any = true;
	}
	return any;
}

void forwarded_append_for(
	struct http_out *out, const struct http_head *head, const struct forwarded_peer *peer)
{
	bool any = peer->trusted &&
		   (append_fields(out, head, HTTP_FIELD_X_FORWARDED_FOR) ||
			   (forwarded_is_well_formed(head) && forwarded_append_nodes(out, head)));

	if (peer->is_unix)
		return;
	if (any)
		http_out_slice(out, SLICE(", "));
	http_out_slice(out, forwarded_peer_text(peer));
}

void forwarded_append_proto(struct http_out *out, const struct http_head *head,
	const struct forwarded_peer *peer, const struct conf_cidrs *trusted, bool is_https)
{
	if (peer->trusted && append_fields(out, head, HTTP_FIELD_X_FORWARDED_PROTO))
		return;
	struct slice reported = forwarded_proto(head, peer, trusted);
	if (!reported.at)
		reported = is_https ? SLICE("https") : SLICE("http");
	http_out_slice(out, reported);
}

void forwarded_append_host(struct http_out *out, const struct http_head *head,
	const struct forwarded_peer *peer, const struct conf_cidrs *trusted, struct slice host)
{
	if (peer->trusted && append_fields(out, head, HTTP_FIELD_X_FORWARDED_HOST))
		return;
	struct slice reported = forwarded_host(head, peer, trusted);
	http_out_slice(out, reported.at ? reported : host);
}

/* The first of a trusted peer's list, or SLICE_NONE. */
static struct slice first_of(
	const struct http_head *head, const struct forwarded_peer *peer, enum http_field_id id)
{
	struct slice list = http_head_find(head, id), first;

	return peer->trusted && slice_next_element(&list, &first) ? first : SLICE_NONE;
}

/* By the trusted peer's word, else by the connection. */
static bool is_https_by(const struct http_head *head, const struct forwarded_peer *peer,
	const struct conf_cidrs *trusted, bool connection_is)
{
	struct slice proto = first_of(head, peer, HTTP_FIELD_X_FORWARDED_PROTO);

	if (!proto.at)
		proto = forwarded_proto(head, peer, trusted);
	if (!proto.at)
		return connection_is;
	return slice_equal_nocase(proto, SLICE("https")) || slice_equal_nocase(proto, SLICE("wss"));
}

bool forwarded_is_https(const struct http_head *head, const struct forwarded_peer *peer,
	const struct conf_cidrs *trusted)
{
	return is_https_by(head, peer, trusted, peer->is_https);
}

/* 1 to 65535, else 0. */
static unsigned port_number(struct slice text)
{
	unsigned port = 0;

	if (text.len == 0 || text.len > 5)
		return 0;
	for (size_t i = 0; i < text.len; i++) {
		if (text.at[i] < '0' || text.at[i] > '9')
			return 0;
		port = port * 10 + (unsigned)(text.at[i] - '0');
	}
	return port <= 65535 ? port : 0;
}

/* The port in `example.com:80` or `[2001:db8::1]:80`; 0: none. */
static unsigned port_of_host(struct slice host)
{
	const char *colon = host.len > 0 ? memrchr(host.at, ':', host.len) : NULL;
	const char *bracket = host.len > 0 ? memrchr(host.at, ']', host.len) : NULL;

	if (!colon || (bracket && bracket > colon))
		return 0;
	return port_number((struct slice){colon + 1, (size_t)(host.at + host.len - colon) - 1});
}

void forwarded_append_port(struct http_out *out, const struct http_head *head,
	const struct forwarded_peer *peer, const struct conf_cidrs *trusted, struct slice host,
	bool is_https)
{
	struct slice reported_host = first_of(head, peer, HTTP_FIELD_X_FORWARDED_HOST);
	unsigned port = port_number(first_of(head, peer, HTTP_FIELD_X_FORWARDED_PORT));

	if (!reported_host.at)
		reported_host = forwarded_host(head, peer, trusted);
	is_https = is_https_by(head, peer, trusted, is_https);
	if (port == 0)
		port = port_of_host(reported_host.at ? reported_host : host);
	http_out_number(out, port != 0 ? port : is_https ? 443 : 80);
}

/* RFC 9110 section 5.6.2. */
static bool is_token(struct slice text)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = text.at[i];
		bool alnum = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
		if (!alnum && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c)))
			return false;
	}
	return text.len > 0;
}

static void append_token_or_quoted(struct http_out *out, struct slice text)
{
	if (is_token(text))
		http_out_slice(out, text);
	else
		http_out_sf_string(out, text);
}

/* A node as Forwarded names it (RFC 7239 section 6). */
static void append_node(struct http_out *out, struct slice node)
{
	uint8_t address[16];
	char text[FORWARDED_ADDRESS_BYTES];

	if (!forwarded_node_parse(node, address)) {
		http_out_slice(out, SLICE("unknown"));
		return;
	}
	struct slice shortest = {text, forwarded_address_text(address, text)};
	if (!memchr(text, ':', shortest.len)) {
		http_out_slice(out, shortest);
		return;
	}
	http_out_slice(out, SLICE("\"["));
	http_out_slice(out, shortest);
	http_out_slice(out, SLICE("]\""));
}

/* Bounds for what grows when written in the other dialect: the nearest hops, short pairs. */
#define X_HOPS     32
#define PAIR_BYTES 255

static size_t count_x_hops(const struct http_head *head)
{
	size_t count = 0;

	for (unsigned i = 0; i < head->field_count; i++) {
		struct slice list = http_field_value(head, &head->fields[i]), node;
		while (head->fields[i].id == HTTP_FIELD_X_FORWARDED_FOR &&
			slice_next_element(&list, &node))
			count++;
	}
	return count;
}

/* The first of what a list of one field says, as a pair. */
static void append_pair(struct http_out *out, const struct http_head *head, enum http_field_id id,
	struct slice start)
{
	struct slice list = http_head_find(head, id), first;

	if (!slice_next_element(&list, &first) || first.len > PAIR_BYTES)
		return;
	http_out_slice(out, start);
	append_token_or_quoted(out, first);
}

static bool has_element(const struct http_head *head, enum http_field_id id)
{
	struct slice list = http_head_find(head, id), first;

	return slice_next_element(&list, &first);
}

/* Appends what the peer reports of the farthest hop, besides its address. */
static void append_farthest(struct http_out *out, const struct http_head *head)
{
	append_pair(out, head, HTTP_FIELD_X_FORWARDED_HOST, SLICE(";host="));
	append_pair(out, head, HTTP_FIELD_X_FORWARDED_PROTO, SLICE(";proto="));
}

/* The hops of X-Forwarded-For, each with a comma behind it; none: false. */
static bool append_x_hops(struct http_out *out, const struct http_head *head)
{
	size_t left = count_x_hops(head);
	bool farthest = left <= X_HOPS, any = left > 0;

	for (unsigned i = 0; i < head->field_count; i++) {
		if (head->fields[i].id != HTTP_FIELD_X_FORWARDED_FOR)
			continue;
		struct slice list = http_field_value(head, &head->fields[i]), node;
		while (slice_next_element(&list, &node)) {
			if (left-- > X_HOPS)
				continue;
			http_out_slice(out, SLICE("for="));
			append_node(out, node);
			if (farthest)
				append_farthest(out, head);
			http_out_slice(out, SLICE(", "));
			farthest = false;
		}
	}
	return any;
}

void forwarded_append_forwarded(struct http_out *out, const struct http_head *head,
	const struct forwarded_peer *peer, struct slice host, bool is_https)
{
	if (peer->trusted && !append_x_hops(out, head)) {
		if (forwarded_is_well_formed(head)) {
			append_fields(out, head, HTTP_FIELD_FORWARDED);
			http_out_slice(out, SLICE(", "));
		} else if (has_element(head, HTTP_FIELD_X_FORWARDED_HOST) ||
			   has_element(head, HTTP_FIELD_X_FORWARDED_PROTO)) {
			http_out_slice(out, SLICE("for=unknown"));
			append_farthest(out, head);
			http_out_slice(out, SLICE(", "));
		}
	}
	http_out_slice(out, SLICE("for="));
	http_out_slice(out, (struct slice){peer->node, peer->node_len});
	if (host.len > 0) {
		http_out_slice(out, SLICE(";host="));
		append_token_or_quoted(out, host);
	}
	http_out_slice(out, is_https ? SLICE(";proto=https") : SLICE(";proto=http"));
}

void forwarded_append_via(
	struct http_out *out, const struct http_head *head, struct slice pseudonym)
{
	if (append_fields(out, head, HTTP_FIELD_VIA))
		http_out_slice(out, SLICE(", "));
	http_out_char(out, (char)('0' + head->major % 10));
	if (head->major == 1) {
		http_out_char(out, '.');
		http_out_char(out, (char)('0' + head->minor % 10));
	}
	http_out_char(out, ' ');
	http_out_slice(out, pseudonym);
}
