#include "site/certificates.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "conf/options.h"
#include "conf/same.h"
#include "site/site.h"

#define PROTOCOLS_MOST 4
#define WHY_BYTES      512
#define SECONDS_A_DAY  86400

struct certificates {
	atomic_uint holders; /* sites */
	pthread_mutex_t lock;
	struct tls_server *server; /* of new connections; with the lock */
	/* The main thread's: */
	uint64_t mark;       /* of the files, as they were read last */
	int64_t warned_day;  /* since 1970: when the log was last told of those that end soon */
	char why[WHY_BYTES]; /* "": all could be used */
};

/* ---- one listener's -------------------------------------------------------------------------- */

static struct certificates *certificates_new(void)
{
	struct certificates *certificates = calloc(1, sizeof(*certificates));

	if (!certificates)
		return NULL;
	atomic_init(&certificates->holders, 1);
	pthread_mutex_init(&certificates->lock, NULL);
	return certificates;
}

static void let_go(struct certificates *certificates)
{
	/* acq_rel: pairs with itself, so the last holder sees all that the others did */
	if (!certificates ||
		atomic_fetch_sub_explicit(&certificates->holders, 1, memory_order_acq_rel) != 1)
		return;
	tls_server_release(certificates->server);
	pthread_mutex_destroy(&certificates->lock);
	free(certificates);
}

struct tls_server *certificates_take(struct certificates *certificates)
{
	pthread_mutex_lock(&certificates->lock);
	struct tls_server *server = tls_server_hold(certificates->server);
	pthread_mutex_unlock(&certificates->lock);
	return server;
}

/* The server's hold passes over. */
static void put(struct certificates *certificates, struct tls_server *server)
{
	pthread_mutex_lock(&certificates->lock);
	struct tls_server *old = certificates->server;
	certificates->server = server;
	pthread_mutex_unlock(&certificates->lock);
	tls_server_release(old);
	certificates->warned_day = 0;
}

void certificates_each(const struct site *site, certificates_take_pair *take, void *user)
{
	for (size_t i = 0; i < site->conf->listener_count; i++) {
		const struct certificates *certificates = site->certificates[i];
		const struct tls_pair_facts *pairs;
		size_t count = certificates ? tls_server_pairs(certificates->server, &pairs) : 0;
		for (size_t j = 0; j < count; j++)
			take(user, site->conf->listeners[i].name, &pairs[j],
				certificates->why[0] ? certificates->why : NULL);
	}
}

/* ---- files ----------------------------------------------------------------------------------- */

void certificates_each_file(const struct conf_listener *listener,
	void (*take)(void *user, const char *path), void *user)
{
	for (size_t i = 0; i < listener->tls.certificates.count; i++)
		take(user, listener->tls.certificates.items[i]);
	for (size_t i = 0; i < listener->tls.certificate_keys.count; i++)
		take(user, listener->tls.certificate_keys.items[i]);
	if (listener->tls.client_ca)
		take(user, listener->tls.client_ca);
	if (listener->tls.client_crl)
		take(user, listener->tls.client_crl);
}

static void add_mark(void *user, const char *path)
{
	uint64_t *mark = user;
	struct stat about = {0};

	if (stat(path, &about) != 0)
		about = (struct stat){.st_size = -errno};
	const uint64_t parts[] = {about.st_dev, about.st_ino, (uint64_t)about.st_size,
		about.st_mode, (uint64_t)about.st_mtim.tv_sec, (uint64_t)about.st_mtim.tv_nsec,
		(uint64_t)about.st_ctim.tv_sec, (uint64_t)about.st_ctim.tv_nsec};
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		*mark = (*mark ^ parts[i]) * UINT64_C(0x100000001b3);
}

/* Other files, or other contents, have another one. */
static uint64_t mark_of(const struct conf_listener *listener)
{
	uint64_t mark = UINT64_C(0xcbf29ce484222325);

	certificates_each_file(listener, add_mark, &mark);
	return mark;
}

/* Selects the terms' protocols that the listener allows. */
static void choose_names(const struct conf_listener *listener,
	const struct certificates_terms *terms, const char *names[static PROTOCOLS_MOST + 1])
{
	size_t count = 0;

	for (const char *const *name = terms->protocols; *name && count < PROTOCOLS_MOST; name++) {
		uint64_t bit = strcmp(*name, "h2") == 0 ? CONF_PROTOCOL_HTTP2 : CONF_PROTOCOL_HTTP1;
		if (listener->protocols & bit)
			names[count++] = *name;
	}
	names[count] = NULL;
}

static struct tls_server *read_files(const struct conf_listener *listener,
	const struct certificates_terms *terms, char why[static WHY_BYTES])
{
	const struct conf_text_list *keys = &listener->tls.certificate_keys;
	struct tls_pair *pairs = calloc(listener->tls.certificates.count, sizeof(*pairs));

	snprintf(why, WHY_BYTES, "no memory");
	if (!pairs)
		return NULL;
	for (size_t i = 0; i < listener->tls.certificates.count; i++) {
		pairs[i].certificate = listener->tls.certificates.items[i];
		pairs[i].key = keys->count > 0 ? keys->items[i] : pairs[i].certificate;
		pairs[i].password = listener->tls.password.at;
	}
	const char *names[PROTOCOLS_MOST + 1];
	choose_names(listener, terms, names);
	bool asks = listener->tls.client_ca && listener->tls.verify != CONF_VERIFY_NONE;
	struct tls_settings settings = {.name = listener->name,
		.client_ca = listener->tls.client_ca,
		.client_crl = listener->tls.client_crl,
		.asks_client = asks,
		.requires_client = asks && listener->tls.verify == CONF_VERIFY_REQUIRED,
		/* Nodes verify each other in each handshake. */
		.tickets = listener->is_internal ? NULL : terms->tickets,
		.pairs = pairs,
		.pair_count = listener->tls.certificates.count,
		.tls12 = (listener->tls.versions & CONF_TLS_1_2) != 0,
		.tls13 = (listener->tls.versions & CONF_TLS_1_3) != 0,
		.ciphers = listener->tls.ciphers,
		.groups = listener->tls.groups,
		.refuses_unknown = listener->tls.refuses_unknown_names,
		.protocols = names};
	struct tls_server *server = tls_server_new(&settings, why, WHY_BYTES);
	free(pairs);
	return server;
}

/* A process that can read a key can impersonate this host; `out` has a sentence, or is empty. */
static void judge_key_file(const char *path, char out[static WHY_BYTES])
{
	struct stat about;

	out[0] = '\0';
	if (stat(path, &about) != 0)
		return;
	if (about.st_mode & (S_IROTH | S_IWOTH | S_IWGRP))
		snprintf(out, WHY_BYTES,
			"%s has a private key and the mode %04o; expected one that no other user "
			"can read, as 0600 or 0640",
			path, about.st_mode & 07777);
	else if (about.st_uid != 0 && about.st_uid != geteuid())
		snprintf(out, WHY_BYTES,
			"%s has a private key and belongs to user %u; expected root or the user "
			"that sluice runs as",
			path, (unsigned)about.st_uid);
}

/* Calls `report` for each key file that others may reach. */
static void judge_keys(const struct conf *conf, const struct conf_listener *listener,
	void (*report)(struct conf_place place, const char *listener, const char *what))
{
	const struct conf_text_list *keys = listener->tls.certificate_keys.count > 0
						    ? &listener->tls.certificate_keys
						    : &listener->tls.certificates;
	char what[WHY_BYTES];

	for (size_t i = 0; i < keys->count; i++) {
		judge_key_file(keys->items[i], what);
		if (*what)
			report(conf_place(conf, listener->line), listener->name, what);
	}
}

static void log_key(struct conf_place place, const char *listener, const char *what)
{
	log_warn("%s:%u: listener %s: %s", place.path, place.line, listener, what);
}

static void print_key(struct conf_place place, const char *listener, const char *what)
{
	fprintf(stderr, "%s:%u: warning: listener %s: %s\n", place.path, place.line, listener,
		what);
}

/* Reads a listener's certificates; NULL if the files can't be used, with a line in the log. */
static struct tls_server *read_again(struct certificates *certificates, const struct conf *conf,
	const struct conf_listener *listener, const struct certificates_terms *terms)
{
	char why[WHY_BYTES];

	certificates->mark = mark_of(listener); /* before: what changes meanwhile is seen later */
	struct tls_server *server = read_files(listener, terms, why);
	if (!server)
		log_error("%s:%u: listener %s: %s%s", CONF_PLACE_ARGS(conf, listener->line),
			listener->name, why,
			certificates->server ? "; it keeps the certificates that it had before"
					     : "");
	else
		judge_keys(conf, listener, log_key);
	snprintf(certificates->why, WHY_BYTES, "%s", server ? "" : why);
	return server;
}

/* ---- sites ----------------------------------------------------------------------------------- */

static bool has_same_options(const struct conf_listener *a, const struct conf_listener *b)
{
	const struct option_section *section = &option_sections[SECTION_LISTENER];

	for (size_t i = 0; i < *section->option_count; i++) {
		const struct option *option = &section->options[i];
		if ((option->flags & OPTION_TLS) && !option_same(option, a, b))
			return false;
	}
	return true;
}

/* The index of the listener of that name with TLS, or the number of listeners. */
static size_t find(const struct site *site, const char *name)
{
	size_t i = 0;

	while (i < site->conf->listener_count &&
		(!site->certificates[i] || strcmp(site->conf->listeners[i].name, name) != 0))
		i++;
	return i;
}

static bool prepare_one(struct site *site, size_t index, const struct site *before,
	const struct certificates_terms *terms, enum certificates_read what)
{
	const struct conf_listener *listener = &site->conf->listeners[index];
	size_t old = before ? find(before, listener->name) : 0;
	bool is_new = !before || old == before->conf->listener_count;
	struct certificates *certificates = is_new ? certificates_new() : before->certificates[old];

	if (!certificates)
		return false;
	if (!is_new) /* relaxed: a holder passes it on */
		atomic_fetch_add_explicit(&certificates->holders, 1, memory_order_relaxed);
	site->certificates[index] = certificates;
	if (!is_new && what == CERTIFICATES_READ_CHANGED &&
		has_same_options(&before->conf->listeners[old], listener))
		return true;
	site->prepared[index] = read_again(certificates, site->conf, listener, terms);
	return site->prepared[index] || !is_new;
}

bool certificates_prepare(struct site *site, const struct site *before,
	const struct certificates_terms *terms, enum certificates_read what)
{
	bool all = true;

	for (size_t i = 0; i < site->conf->listener_count; i++) {
		if (site->conf->listeners[i].tls.certificates.count > 0)
			all &= prepare_one(site, i, before, terms, what);
	}
	return all;
}

void certificates_commit(struct site *site)
{
	for (size_t i = 0; i < site->conf->listener_count; i++) {
		if (site->prepared[i])
			put(site->certificates[i], site->prepared[i]);
		site->prepared[i] = NULL;
	}
}

void certificates_release(struct site *site)
{
	for (size_t i = 0; site->certificates && site->prepared && i < site->conf->listener_count;
		i++) {
		if (site->prepared[i])
			site->certificates[i]->mark = 0; /* not in use: to be read again */
		tls_server_release(site->prepared[i]);
		let_go(site->certificates[i]);
	}
	free(site->certificates);
	free(site->prepared);
}

/* ---- time ------------------------------------------------------------------------------------ */

static void warn(const char *listener, const struct tls_pair_facts *pair, uint64_t now_s)
{
	int64_t left_s = pair->expires_s - (int64_t)now_s;
	time_t end = (time_t)pair->expires_s;
	struct tm utc;
	char date[16];

	strftime(date, sizeof(date), "%Y-%m-%d", gmtime_r(&end, &utc));
	if (left_s <= 0)
		log_error("listener %s: the certificate %s has expired, on %s", listener,
			pair->path, date);
	else if (left_s < CERTIFICATE_WARN_DAYS * SECONDS_A_DAY)
		log_warn("listener %s: the certificate %s expires in %lld days, on %s", listener,
			pair->path, (long long)(left_s / SECONDS_A_DAY), date);
}

static void warn_daily(
	struct certificates *certificates, const struct conf_listener *listener, uint64_t now_s)
{
	const struct tls_pair_facts *pairs;
	size_t count = tls_server_pairs(certificates->server, &pairs);
	int64_t day = (int64_t)(now_s / SECONDS_A_DAY);

	if (certificates->warned_day == day)
		return;
	certificates->warned_day = day;
	for (size_t i = 0; i < count; i++)
		warn(listener->name, &pairs[i], now_s);
}

void certificates_look(
	const struct site *site, const struct certificates_terms *terms, uint64_t now_s)
{
	for (size_t i = 0; i < site->conf->listener_count; i++) {
		const struct conf_listener *listener = &site->conf->listeners[i];
		struct certificates *certificates = site->certificates[i];
		if (!certificates)
			continue;
		if (certificates->mark != mark_of(listener)) {
			struct tls_server *server =
				read_again(certificates, site->conf, listener, terms);
			if (server)
				log_info(
					"listener %s: its certificates have changed and are in use",
					listener->name);
			if (server)
				put(certificates, server);
		}
		warn_daily(certificates, listener, now_s);
	}
}

bool certificates_check(const struct conf *conf)
{
	static const char *const none[] = {NULL};
	const struct certificates_terms terms = {none, NULL};
	char why[WHY_BYTES];
	bool all = true;

	for (size_t i = 0; i < conf->listener_count; i++) {
		const struct conf_listener *listener = &conf->listeners[i];
		if (listener->tls.certificates.count == 0)
			continue;
		struct tls_server *server = read_files(listener, &terms, why);
		if (!server)
			fprintf(stderr, "%s:%u: listener %s: %s\n",
				CONF_PLACE_ARGS(conf, listener->line), listener->name, why);
		else
			judge_keys(conf, listener, print_key);
		all &= server != NULL;
		tls_server_release(server);
	}
	return all;
}
