#include "exchange/kept_request.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

static size_t field_bytes(const struct http_head *head)
{
	return head->field_count * sizeof(head->fields[0]);
}

static void keep_text(char **at, struct slice *text)
{
	if (text->len == 0)
		return;
	memcpy(*at, text->at, text->len);
	text->at = *at;
	*at += text->len;
}

/* As it is, but for where it is: its fields are the first of the texts, its lines follow. */
static void keep_head(char **at, struct kept_head *head, const struct http_head *from)
{
	struct slice text = {from->base, from->len};

	memcpy(head->start, from, sizeof(head->start));
	if (field_bytes(from) > 0)
		memcpy(*at, from->fields, field_bytes(from));
	*at += field_bytes(from);
	keep_text(at, &text);
}

void kept_request_head(const struct kept_request *kept, struct http_head *head)
{
	const char *fields = kept->texts;

	memcpy(head, kept->head.start, sizeof(kept->head.start));
	head->fields = (struct http_field *)(uintptr_t)fields;
	head->field_capacity = head->field_count;
	head->base = fields + field_bytes(head);
}

static void keep_identity(char **at, struct kept_request *kept)
{
	kept->tls = *kept->facts.tls;
	kept->facts.tls = &kept->tls;
	for (unsigned i = 0; i < TLS_FACTS; i++)
		keep_text(at, &kept->tls.facts[i]);
	keep_text(at, &kept->tls.certificate);
	keep_text(at, &kept->tls.chain);
}

struct kept_request *kept_request_new(const struct exchange *x)
{
	const struct exchange_facts *facts = &x->facts;
	size_t bytes = field_bytes(&x->request) + x->request.len + facts->host.len +
		       facts->authority.len + facts->path.len + facts->key_path.len +
		       facts->method.len + x->request_id.len + x->target.query.len;
	for (unsigned i = 0; facts->tls && i < TLS_FACTS; i++)
		bytes += facts->tls->facts[i].len;
	if (facts->tls)
		bytes += facts->tls->certificate.len + facts->tls->chain.len;
	struct kept_request *kept = malloc(sizeof(*kept) + bytes);

	_Static_assert(offsetof(struct kept_request, texts) % alignof(struct http_field) == 0,
		"fields of a head are the first of the texts");
	if (!kept)
		return NULL;
	char *at = kept->texts;
	keep_head(&at, &kept->head, &x->request);
	kept->facts = *facts;
	keep_text(&at, &kept->facts.host);
	keep_text(&at, &kept->facts.authority);
	keep_text(&at, &kept->facts.path);
	keep_text(&at, &kept->facts.key_path);
	keep_text(&at, &kept->facts.method);
	if (facts->tls)
		keep_identity(&at, kept);
	kept->request_id = x->request_id;
	keep_text(&at, &kept->request_id);
	kept->query = x->target.query;
	keep_text(&at, &kept->query);
	kept->caller = x->gate->verdict.caller;
	kept->session = x->gate->verdict.session;
	return kept;
}
