#include "store/cluster_map.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cluster_map_clear(struct cluster_map *map)
{
	free(map->nodes);
	*map = (struct cluster_map){0};
}

/* Its place, or -1. */
static int find_or_add(struct cluster_map *map, const char *host, uint16_t port)
{
	for (unsigned i = 0; i < map->count; i++) {
		if (map->nodes[i].port == port && strcmp(map->nodes[i].host, host) == 0)
			return (int)i;
	}
	if (map->count == map->size) {
		unsigned size = map->size > 0 ? 2 * map->size : 16;
		struct cluster_node *nodes = realloc(map->nodes, size * sizeof(*nodes));
		if (!nodes)
			return -1;
		map->nodes = nodes;
		map->size = size;
	}
	if (map->count >= CLUSTER_NODES_MOST)
		return -1;
	snprintf(map->nodes[map->count].host, sizeof(map->nodes[0].host), "%s", host);
	map->nodes[map->count].port = port;
	return (int)map->count++;
}

/* [host, port, ...]. A host that is unknown is nil, empty or "?". Its place, or -1. */
static int read_node(struct cluster_map *map, const redisReply *node, const char *host)
{
	if (node->type != REDIS_REPLY_ARRAY || node->elements < 2)
		return -1;
	const redisReply *name = node->element[0], *port = node->element[1];
	if (port->type != REDIS_REPLY_INTEGER || port->integer <= 0 || port->integer > UINT16_MAX)
		return -1;
	if (name->type == REDIS_REPLY_STRING && name->len > 0 && strcmp(name->str, "?") != 0) {
		if (name->len >= REDIS_HOST_BYTES)
			return -1;
		host = name->str;
	} else if (name->type != REDIS_REPLY_STRING && name->type != REDIS_REPLY_NIL) {
		return -1;
	}
	return find_or_add(map, host, (uint16_t)port->integer);
}

/* [first, last, primary, replica ...] */
static bool read_range(struct cluster_map *map, const redisReply *range, const char *host)
{
	if (range->type != REDIS_REPLY_ARRAY || range->elements < 3 ||
		range->element[0]->type != REDIS_REPLY_INTEGER ||
		range->element[1]->type != REDIS_REPLY_INTEGER)
		return false;
	long long first = range->element[0]->integer, last = range->element[1]->integer;
	if (first < 0 || last >= SLOTS || first > last)
		return false;
	int primary = read_node(map, range->element[2], host);
	if (primary < 0)
		return false;
	for (long long slot = first; slot <= last; slot++)
		map->owners[slot] = (uint16_t)(primary + 1);
	for (size_t i = 3; i < range->elements; i++)
		read_node(map, range->element[i], host); /* to ask later; it may be unknown */
	return true;
}

bool cluster_map_read(struct cluster_map *map, const redisReply *answer, const char *host)
{
	bool is_good = answer->type == REDIS_REPLY_ARRAY;

	cluster_map_clear(map);
	for (size_t i = 0; is_good && i < answer->elements; i++)
		is_good = read_range(map, answer->element[i], host);
	if (!is_good)
		cluster_map_clear(map);
	return is_good;
}

void cluster_map_read_info(const char *info, bool *is_up, uint64_t *epoch)
{
	static const char epoch_name[] = "cluster_current_epoch:";
	const char *at = strstr(info, epoch_name);

	*is_up = strstr(info, "cluster_state:ok") != NULL;
	*epoch = at ? strtoull(at + strlen(epoch_name), NULL, 10) : 0;
}

/* ---- slot ----------------------------------------------------------------------------------- */

/* CRC-16/XMODEM: polynomial 0x1021, nothing reflected, begun with 0. */
static uint16_t crc16(const char *bytes, size_t len)
{
	uint32_t crc = 0;

	for (size_t i = 0; i < len; i++) {
		crc ^= (uint32_t)(unsigned char)bytes[i] << 8;
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1;
		crc &= 0xffff;
	}
	return (uint16_t)crc;
}

uint16_t slot_of_key(const char *key, size_t len)
{
	const char *open = memchr(key, '{', len);
	const char *close = open ? memchr(open, '}', len - (size_t)(open - key)) : NULL;

	if (close && close > open + 1)
		return crc16(open + 1, (size_t)(close - open - 1)) % SLOTS;
	return crc16(key, len) % SLOTS;
}

void slot_write_tag(unsigned part, char tag[SLOT_TAG_BYTES])
{
	static const char digits[] = "0123456789abcdef";
	unsigned number = (part - 1) % SLOT_PARTS;

	tag[0] = digits[number >> 8];
	tag[1] = digits[number >> 4 & 15];
	tag[2] = digits[number & 15];
	tag[3] = '\0';
}

uint16_t slot_of_part(unsigned part)
{
	char tag[SLOT_TAG_BYTES];

	if (part == 0)
		return 0;
	slot_write_tag(part, tag);
	return crc16(tag, SLOT_TAG_BYTES - 1) % SLOTS;
}

/* ---- redirect ------------------------------------------------------------------------------- */

static bool begins(const char *text, const char *word)
{
	return strncmp(text, word, strlen(word)) == 0;
}

/* "SLOT HOST:PORT"; an IPv6 address has colons, too. */
static bool read_place(struct redirect *redirect, const char *text, const char *host)
{
	char *end;
	unsigned long slot = strtoul(text, &end, 10);
	const char *place = end + 1, *colon = *end == ' ' ? strrchr(place, ':') : NULL;

	if (end == text || slot >= SLOTS || !colon)
		return false;
	unsigned long port = strtoul(colon + 1, &end, 10);
	size_t len = (size_t)(colon - place);
	if (end == colon + 1 || port == 0 || port > UINT16_MAX || len >= sizeof(redirect->host))
		return false;
	if (len == 0 || (len == 1 && *place == '?'))
		snprintf(redirect->host, sizeof(redirect->host), "%s", host);
	else
		snprintf(redirect->host, sizeof(redirect->host), "%.*s", (int)len, place);
	redirect->slot = (uint16_t)slot;
	redirect->port = (uint16_t)port;
	return true;
}

bool redirect_read(struct redirect *redirect, const char *error, const char *host)
{
	redirect->kind = REDIRECT_NONE;
	if (begins(error, "MOVED ") && read_place(redirect, error + strlen("MOVED "), host))
		redirect->kind = REDIRECT_MOVED;
	else if (begins(error, "ASK ") && read_place(redirect, error + strlen("ASK "), host))
		redirect->kind = REDIRECT_ASK;
	else if (begins(error, "TRYAGAIN"))
		redirect->kind = REDIRECT_LATER;
	else if (begins(error, "CLUSTERDOWN Hash slot not served"))
		redirect->kind = REDIRECT_UNSERVED;
	else if (begins(error, "CLUSTERDOWN"))
		redirect->kind = REDIRECT_DOWN;
	return redirect->kind != REDIRECT_NONE;
}
