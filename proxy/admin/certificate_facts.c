#include "admin/certificate_facts.h"

#include "admin/json_text.h"
#include "base/clock.h"
#include "site/certificates.h"

static void add_json(
	void *user, const char *listener, const struct tls_pair_facts *pair, const char *why)
{
	json_t *list = *(json_t **)user;
	struct clock_cache cache = {0};
	char expires[CLOCK_ISO_BYTES];
	int64_t now_s = (int64_t)(clock_wall_ns() / CLOCK_NS_PER_S);

	clock_format_iso(&cache, (uint64_t)pair->expires_s * CLOCK_NS_PER_S, expires);
	json_array_append_new(list,
		json_pack("{s:s, s:o, s:o, s:s, s:I, s:o}", "listener", listener, "certificate",
			admin_json_text(pair->path), "name", admin_json_text(pair->name), "expires",
			expires, "days", (json_int_t)((pair->expires_s - now_s) / 86400), "problem",
			why ? admin_json_text(why) : json_null()));
}

json_t *certificate_facts_json(const struct site *site)
{
	json_t *list = json_array();

	if (list)
		certificates_each(site, add_json, &list);
	return list;
}

struct page {
	FILE *out;
	enum exposition_format format;
	const char *name, *help, *listener;
};

static void put_sample(
	struct page *page, const char *listener, const char *certificate, double value)
{
	const char *const labels[] = {
		"listener", listener, certificate ? "certificate" : NULL, certificate, NULL};

	if (!page->listener)
		exposition_family(page->out, page->format, page->name, false, page->help);
	page->listener = listener;
	exposition_sample(page->out, page->name, labels, value);
}

static void put_expiry(
	void *user, const char *listener, const struct tls_pair_facts *pair, const char *why)
{
	(void)why;
	put_sample(user, listener, pair->path, (double)pair->expires_s);
}

/* Once for each listener: its pairs come in a row. */
static void put_problem(
	void *user, const char *listener, const struct tls_pair_facts *pair, const char *why)
{
	struct page *page = user;

	(void)pair;
	if (page->listener != listener)
		put_sample(page, listener, NULL, why != NULL);
}

void certificate_facts_put(FILE *out, enum exposition_format format, const struct site *site)
{
	struct page expiry = {out, format, "sluice_certificate_expiry_timestamp_seconds",
		"Unix time at which a certificate in use expires.", NULL};
	struct page problem = {out, format, "sluice_certificates_outdated",
		"1: the listener's files could not be used when they were read last, and older "
		"ones are in use; 0: they could.",
		NULL};

	certificates_each(site, put_expiry, &expiry);
	certificates_each(site, put_problem, &problem);
}
