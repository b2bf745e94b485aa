/* The walk: from the peer back through the hops that trusted proxies vouch for. */
#include "http/forwarded.h"

#include <string.h>

#include "conf/conf.h"

struct walk {
	const struct conf_cidrs *trusted;
	uint8_t *address;   /* the farthest hop that is known */
	bool goes_on;       /* it is trusted, so what it said of the hop before counts */
	struct slice proto; /* of the farthest hop whose protocol was told */
	struct slice host;  /* of the farthest hop whose host was told */
};

/* `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80` */
static bool parse_node(struct slice node, uint8_t address[16])
{
	if (node.len == 0)
		return false;
	if (node.at[0] == '[') {
		const char *bracket = memchr(node.at, ']', node.len);
		if (!bracket)
			return false;
		size_t len = (size_t)(bracket - node.at) - 1;
		if (len + 2 < node.len && bracket[1] != ':')
			return false;
		return memchr(node.at, ':', len + 1) &&
		       forwarded_address_parse((struct slice){node.at + 1, len}, address);
	}
	const char *colon = memchr(node.at, ':', node.len);
	if (colon && memchr(node.at, '.', (size_t)(colon - node.at)))
		node.len = (size_t)(colon - node.at);
	return forwarded_address_parse(node, address);
}

/* One hop further back. */
static void step(struct walk *walk, struct slice node)
{
	uint8_t address[16];

	if (!parse_node(node, address)) {
		walk->goes_on = false;
		return;
	}
	memcpy(walk->address, address, sizeof(address));
	walk->goes_on = forwarded_peer_trusted(walk->trusted, address);
}

/* A comma-separated list, from its end. */
static void walk_list(struct walk *walk, struct slice list)
{
	while (walk->goes_on && list.len > 0) {
		const char *comma = memrchr(list.at, ',', list.len);
		size_t begin = comma ? (size_t)(comma - list.at) + 1 : 0;
		struct slice element =
			slice_trim((struct slice){list.at + begin, list.len - begin});
		if (element.len > 0)
			step(walk, element);
		list.len = comma ? begin - 1 : 0;
	}
}

/*
 * Forwarded can only be read from its beginning, because of its quoted strings. The nodes of a line
 * are kept in a ring of its last HOPS elements; a chain of more trusted proxies than that ends
 * there.
 */
#define HOPS 32

struct hop {
	struct slice node, proto, host; /* none: not said */
};

struct hops {
	struct hop items[HOPS];
	size_t count; /* seen; the last HOPS of them are kept */
};

/* A token or quoted string off the front of `rest`, the latter without its quotes and still
 * escaped. */
static bool take_value(struct slice *rest, struct slice *value)
{
	size_t i = 0;

	if (rest->len > 0 && rest->at[0] == '"') {
		for (i = 1; i < rest->len && rest->at[i] != '"'; i++)
			i += rest->at[i] == '\\';
		if (i >= rest->len)
			return false;
		*value = (struct slice){rest->at + 1, i - 1};
		i++;
	} else {
		while (i < rest->len && !memchr("\",;= \t", rest->at[i], 6))
			i++;
		*value = (struct slice){rest->at, i};
	}
	rest->at += i;
	rest->len -= i;
	return true;
}

static void skip_ows(struct slice *rest)
{
	while (rest->len > 0 && (rest->at[0] == ' ' || rest->at[0] == '\t')) {
		rest->at++;
		rest->len--;
	}
}

static bool take_char(struct slice *rest, char c)
{
	if (rest->len == 0 || rest->at[0] != c)
		return false;
	rest->at++;
	rest->len--;
	return true;
}

/* One element, `for=...;proto=...`, up to its comma. */
static bool take_element(struct slice *rest, struct hop *hop)
{
	*hop = (struct hop){SLICE_NONE, SLICE_NONE, SLICE_NONE};
	do {
		struct slice name, value;
		skip_ows(rest);
		if (rest->len == 0 || rest->at[0] == ',' || rest->at[0] == ';')
			continue; /* an empty pair */
		if (!take_value(rest, &name) || name.len == 0 || !take_char(rest, '=') ||
			!take_value(rest, &value))
			return false;
		struct slice *said = slice_equal_nocase(name, SLICE("for"))     ? &hop->node
				     : slice_equal_nocase(name, SLICE("proto")) ? &hop->proto
				     : slice_equal_nocase(name, SLICE("host"))  ? &hop->host
										: NULL;
		if (said && said->at)
			return false;
		if (said)
			*said = value;
		skip_ows(rest);
	} while (take_char(rest, ';'));
	return rest->len == 0 || rest->at[0] == ',';
}

static bool read_hops(struct slice line, struct hops *hops)
{
	hops->count = 0;
	while (line.len > 0) {
		skip_ows(&line);
		if (take_char(&line, ','))
			continue;
		if (line.len == 0)
			break;
		if (!take_element(&line, &hops->items[hops->count % HOPS]))
			return false;
		hops->count++;
		if (line.len > 0 && !take_char(&line, ','))
			return false;
	}
	return true;
}

static void walk_forwarded(struct walk *walk, struct slice line)
{
	struct hops hops;

	if (!read_hops(line, &hops)) {
		walk->goes_on = false;
		return;
	}
	size_t oldest = hops.count > HOPS ? hops.count - HOPS : 0;
	for (size_t i = hops.count; walk->goes_on && i > oldest; i--) {
		const struct hop *hop = &hops.items[(i - 1) % HOPS];
		if (hop->proto.at)
			walk->proto = hop->proto;
		if (hop->host.at)
			walk->host = hop->host;
		if (hop->node.at)
			step(walk, hop->node);
		else
			walk->goes_on = false;
	}
	if (oldest > 0)
		walk->goes_on = false;
}

/* Field lines of one name are one list (RFC 9110 section 5.3): the last line is the nearest. */
static void walk_fields(struct walk *walk, const struct http_head *head, enum http_field_id id)
{
	for (unsigned i = head->field_count; walk->goes_on && i > 0; i--) {
		const struct http_field *field = &head->fields[i - 1];
		if (field->id != id)
			continue;
		if (id == HTTP_FIELD_FORWARDED)
			walk_forwarded(walk, http_field_value(head, field));
		else
			walk_list(walk, http_field_value(head, field));
	}
}

void forwarded_caller(const struct http_head *head, const struct forwarded_peer *peer,
	const struct conf_cidrs *trusted, uint8_t address[16])
{
	struct walk walk = {.trusted = trusted, .address = address, .goes_on = peer->trusted};

	memcpy(address, peer->address, 16);
	if (!walk.goes_on)
		return;
	if (http_head_find(head, HTTP_FIELD_X_FORWARDED_FOR).at)
		walk_fields(&walk, head, HTTP_FIELD_X_FORWARDED_FOR);
	else
		walk_fields(&walk, head, HTTP_FIELD_FORWARDED);
}

/* Walks Forwarded as far as trusted peers have written it. */
static struct walk walk_what_counts(const struct http_head *head, const struct forwarded_peer *peer,
	const struct conf_cidrs *trusted, uint8_t address[16])
{
	struct walk walk = {.trusted = trusted, .address = address, .goes_on = peer->trusted};

	if (walk.goes_on && !http_head_find(head, HTTP_FIELD_X_FORWARDED_FOR).at)
		walk_fields(&walk, head, HTTP_FIELD_FORWARDED);
	return walk;
}

struct slice forwarded_host(const struct http_head *head, const struct forwarded_peer *peer,
	const struct conf_cidrs *trusted)
{
	uint8_t address[16];
	struct slice host = walk_what_counts(head, peer, trusted, address).host;

	/* No host needs to be escaped. */
	return host.len > 0 && !memchr(host.at, '\\', host.len) ? host : SLICE_NONE;
}

/* Is it a well-formed line of Forwarded? */
static bool read_line_of(const struct http_head *head, unsigned i, struct hops *hops)
{
	return head->fields[i].id == HTTP_FIELD_FORWARDED &&
	       read_hops(http_field_value(head, &head->fields[i]), hops);
}

static void append_node(struct http_out *out, struct slice node)
{
	char text[FORWARDED_ADDRESS_BYTES];
	uint8_t address[16];

	if (parse_node(node, address))
		http_out_slice(out, (struct slice){text, forwarded_address_text(address, text)});
	else
		http_out_slice(out, SLICE("unknown"));
}

bool forwarded_append_nodes(struct http_out *out, const struct http_head *head)
{
	struct hops hops;
	size_t count = 0, at = 0, first;

	for (unsigned i = 0; i < head->field_count; i++)
		count += read_line_of(head, i, &hops) ? hops.count : 0;
	/* The nearest ones, over all lines: text may grow by being written in the other dialect. */
	first = count > HOPS ? count - HOPS : 0;
	for (unsigned i = 0; i < head->field_count; i++) {
		if (!read_line_of(head, i, &hops))
			continue;
		for (size_t j = first > at ? first - at : 0; j < hops.count; j++) {
			if (at + j > first)
				http_out_slice(out, SLICE(", "));
			append_node(out, hops.items[j % HOPS].node);
		}
		at += hops.count;
	}
	return count > 0;
}

struct slice forwarded_proto(const struct http_head *head, const struct forwarded_peer *peer,
	const struct conf_cidrs *trusted)
{
	uint8_t address[16];
	struct walk walk = walk_what_counts(head, peer, trusted, address);

	if (slice_equal_nocase(walk.proto, SLICE("https")))
		return SLICE("https");
	if (slice_equal_nocase(walk.proto, SLICE("http")))
		return SLICE("http");
	return SLICE_NONE;
}

bool forwarded_is_well_formed(const struct http_head *head)
{
	struct hops hops;
	bool any = false;

	for (unsigned i = 0; i < head->field_count; i++) {
		const struct http_field *field = &head->fields[i];
		if (field->id != HTTP_FIELD_FORWARDED)
			continue;
		if (!read_hops(http_field_value(head, field), &hops))
			return false;
		any |= hops.count > 0;
	}
	return any;
}

bool forwarded_node_parse(struct slice node, uint8_t address[16])
{
	return parse_node(node, address);
}
