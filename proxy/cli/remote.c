/* See remote.h. */
#include "cli/remote.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/tokens.h"
#include "base/base64.h"
#include "base/digest.h"
#include "conf/conf.h"
#include "net/tls_pair.h"

/* ---- curl ----------------------------------------------------------------------------------- */

/*
 * libcurl, loaded when a command first asks a running sluice. Linked, it and the 19 libraries that
 * it needs would be 1.8 MB of every sluice that serves.
 */

/* Its functions, by the names that they have behind `curl_`. */
struct curl_functions {
	__typeof__(curl_easy_init) *easy_init;
	__typeof__(curl_easy_setopt) *easy_setopt;
	__typeof__(curl_easy_perform) *easy_perform;
	__typeof__(curl_easy_getinfo) *easy_getinfo;
	__typeof__(curl_easy_strerror) *easy_strerror;
	__typeof__(curl_easy_escape) *easy_escape;
	__typeof__(curl_easy_cleanup) *easy_cleanup;
	__typeof__(curl_slist_append) *slist_append;
	__typeof__(curl_slist_free_all) *slist_free_all;
	__typeof__(curl_free) *free;
};

#define LIBRARY "libcurl.so.4" /* its only binary interface since 2006 */

/* Fills `curl`; the library stays loaded. False with a line on stderr where it can't be loaded. */
static bool curl_load(struct curl_functions *curl)
{
	static const struct {
		const char *name;
		size_t at; /* of the pointer in the struct */
	} functions[] = {
		{"curl_easy_init", offsetof(struct curl_functions, easy_init)},
		{"curl_easy_setopt", offsetof(struct curl_functions, easy_setopt)},
		{"curl_easy_perform", offsetof(struct curl_functions, easy_perform)},
		{"curl_easy_getinfo", offsetof(struct curl_functions, easy_getinfo)},
		{"curl_easy_strerror", offsetof(struct curl_functions, easy_strerror)},
		{"curl_easy_escape", offsetof(struct curl_functions, easy_escape)},
		{"curl_easy_cleanup", offsetof(struct curl_functions, easy_cleanup)},
		{"curl_slist_append", offsetof(struct curl_functions, slist_append)},
		{"curl_slist_free_all", offsetof(struct curl_functions, slist_free_all)},
		{"curl_free", offsetof(struct curl_functions, free)},
	};
	const size_t count = sizeof(functions) / sizeof(functions[0]);
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	_Static_assert(sizeof(*curl) == sizeof(functions) / sizeof(functions[0]) * sizeof(void *),
		"each function has its row");
	for (size_t i = 0; library && i < count; i++) {
		void *function = dlsym(library, functions[i].name);
		if (!function) {
			library = NULL;
			break;
		}
		memcpy((char *)curl + functions[i].at, &function, sizeof(function));
	}
	if (!library)
		fprintf(stderr, "sluice: %s\n", dlerror());
	return library != NULL;
}

/* ---- remote --------------------------------------------------------------------------------- */

#define TIMEOUT_SECONDS 30
#define ANSWER_MAX      (256 * 1024 * 1024)

/* ---- where ----------------------------------------------------------------------------------- */

static bool set_address(struct remote *remote, const char *text)
{
	if (strncmp(text, "unix:", 5) == 0) {
		remote->socket_path = strdup(text + 5);
		remote->base = strdup("http://localhost");
		return remote->socket_path && remote->base;
	}
	if (strstr(text, "://"))
		remote->base = strdup(text);
	else if (asprintf(&remote->base, "http://%s", text) < 0)
		remote->base = NULL;
	if (remote->base && *remote->base && remote->base[strlen(remote->base) - 1] == '/')
		remote->base[strlen(remote->base) - 1] = '\0';
	return remote->base != NULL;
}

/* The last word of the first line that is neither a comment nor a hashed token. */
static char *read_token(const char *path)
{
	char line[1024], *token = NULL;
	FILE *file = fopen(path, "re");

	if (!file) {
		fprintf(stderr, "sluice: %s: %s\n", path, strerror(errno));
		return NULL;
	}
	while (!token && fgets(line, sizeof(line), file)) {
		char *rest = NULL, *last = NULL;
		admin_tokens_cut_comment(line);
		for (char *word = strtok_r(line, " \t\r\n", &rest); word;
			word = strtok_r(NULL, " \t\r\n", &rest))
			last = word;
		if (last && strncmp(last, "sha256:", 7) != 0)
			token = strdup(last);
	}
	fclose(file);
	return token;
}

/* The certificate's key as libcurl has it. NULL with a line on stderr. */
static char *make_pin(const char *path)
{
	unsigned char digest[DIGEST_BYTES];
	char text[BASE64_TEXT_ROOM(DIGEST_BYTES)], *pin = NULL;
	const char *why = tls_key_digest(path, digest);

	if (why) {
		fprintf(stderr, "sluice: %s: %s\n", path, why);
		return NULL;
	}
	base64_write((struct slice){(const char *)digest, DIGEST_BYTES}, text);
	return asprintf(&pin, "sha256//%s", text) < 0 ? NULL : pin;
}

/* https to the address, of the configuration's own certificate and no other. */
static bool use_certificate(struct remote *remote, const char *path)
{
	static const char http[] = "http://";
	char *base = NULL;

	if (remote->socket_path)
		return true;
	remote->pin = make_pin(path);
	if (!remote->pin || asprintf(&base, "https://%s", remote->base + strlen(http)) < 0)
		return false;
	free(remote->base);
	remote->base = base;
	return true;
}

static bool read_conf(struct remote *remote, const char *path, bool wants_token)
{
	struct conf_errors errors = {0};
	const struct conf *conf = conf_load_admin(path, &errors);
	bool found = false;

	for (size_t i = 0; i < errors.count; i++)
		fprintf(stderr, "%s\n", errors.items[i].text);
	if (errors.incomplete)
		fprintf(stderr, "%s: out of memory\n", path);
	conf_errors_free(&errors);
	if (!conf)
		return false;
	if (conf->admin.bind_count == 0)
		fprintf(stderr, "%s: there is no [admin]; sluice can't be asked\n", path);
	else
		found = set_address(remote, conf->admin.binds[0].text) &&
			(!conf->admin.certificate ||
				use_certificate(remote, conf->admin.certificate));
	if (found && wants_token && conf->admin.token_path)
		remote->token = read_token(conf->admin.token_path);
	conf_release(conf);
	return found;
}

int remote_find(
	struct remote *remote, const char *admin, const char *conf_path, const char *token_path)
{
	const char *given = getenv("SLUICE_TOKEN");

	*remote = (struct remote){0};
	if (token_path)
		remote->token = read_token(token_path);
	else if (given && *given)
		remote->token = strdup(given);
	if (token_path && !remote->token)
		return 2;
	bool is_found =
		admin ? set_address(remote, admin) : read_conf(remote, conf_path, !remote->token);

	return is_found ? 0 : 1;
}

void remote_clear(struct remote *remote)
{
	free(remote->base);
	free(remote->socket_path);
	free(remote->token);
	free(remote->pin);
	*remote = (struct remote){0};
}

/* ---- calling --------------------------------------------------------------------------------- */

struct answer {
	char *text;
	size_t bytes;
};

static size_t on_data(char *data, size_t size, size_t count, void *ctx)
{
	struct answer *answer = ctx;
	size_t bytes = size * count;

	if (answer->bytes + bytes > ANSWER_MAX)
		return 0;
	char *text = realloc(answer->text, answer->bytes + bytes + 1);
	if (!text)
		return 0;
	answer->text = text;
	memcpy(text + answer->bytes, data, bytes);
	answer->bytes += bytes;
	text[answer->bytes] = '\0';
	return bytes;
}

static void report_problem(long status, const json_t *problem)
{
	const char *detail = json_string_value(json_object_get(problem, "detail"));
	const json_t *error;
	size_t index;

	fprintf(stderr, "sluice: %s (status %ld)\n", detail ? detail : "the request was refused",
		status);
	json_array_foreach(json_object_get(problem, "errors"), index, error)
		fprintf(stderr, "  %s\n", json_string_value(error));
}

static enum remote_result perform(const struct curl_functions *curl, CURL *call,
	const struct remote *remote, struct answer *text, json_t **answer)
{
	char why[CURL_ERROR_SIZE] = "";
	long status = 0;

	curl->easy_setopt(call, CURLOPT_ERRORBUFFER, why);
	CURLcode code = curl->easy_perform(call);
	if (code != CURLE_OK) {
		fprintf(stderr, "sluice: %s: %s; is sluice running there?\n",
			remote->socket_path ? remote->socket_path : remote->base,
			why[0] ? why : curl->easy_strerror(code));
		return REMOTE_UNREACHABLE;
	}
	curl->easy_getinfo(call, CURLINFO_RESPONSE_CODE, &status);
	*answer = text->text ? json_loads(text->text, 0, NULL) : NULL;
	if (status < 300 && *answer)
		return REMOTE_OK;
	if (!remote->is_quiet)
		report_problem(status, *answer);
	json_decref(*answer);
	*answer = NULL;
	return REMOTE_REFUSED;
}

static void set_options(const struct curl_functions *curl, CURL *call, const struct remote *remote,
	const char *method, const char *url, struct curl_slist *fields, const char *body,
	struct answer *text)
{
	curl->easy_setopt(call, CURLOPT_URL, url);
	curl->easy_setopt(call, CURLOPT_PROXY, "");
	curl->easy_setopt(call, CURLOPT_PATH_AS_IS, 1L);
	curl->easy_setopt(call, CURLOPT_TIMEOUT, (long)(TIMEOUT_SECONDS + remote->waits_s));
	curl->easy_setopt(call, CURLOPT_HTTPHEADER, fields);
	curl->easy_setopt(call, CURLOPT_WRITEFUNCTION, on_data);
	curl->easy_setopt(call, CURLOPT_WRITEDATA, text);
	if (remote->socket_path)
		curl->easy_setopt(call, CURLOPT_UNIX_SOCKET_PATH, remote->socket_path);
	if (remote->ca)
		curl->easy_setopt(call, CURLOPT_CAINFO, remote->ca);
	if (body || strcmp(method, "POST") == 0)
		curl->easy_setopt(call, CURLOPT_POSTFIELDS, body ? body : "");
	if (strcmp(method, "GET") != 0)
		curl->easy_setopt(call, CURLOPT_CUSTOMREQUEST, method);
}

/* Whom the token is sent to is verified before: by authorities and its name, or as the one that has
 * the configuration's key. False: this libcurl can't. */
static bool set_pin(const struct curl_functions *curl, CURL *call, const struct remote *remote)
{
	if (!remote->pin || remote->ca)
		return true;
	if (curl->easy_setopt(call, CURLOPT_PINNEDPUBLICKEY, remote->pin) != CURLE_OK) {
		fprintf(stderr,
			"sluice: this libcurl verifies no public keys; --admin https://HOST "
			"and --ca FILE do without\n");
		return false;
	}
	curl->easy_setopt(call, CURLOPT_SSL_VERIFYPEER, 0L);
	curl->easy_setopt(call, CURLOPT_SSL_VERIFYHOST, 0L);
	return true;
}

static struct curl_slist *add_field(const struct curl_functions *curl, struct curl_slist *fields,
	const char *name, const char *value)
{
	char *line = NULL;
	struct curl_slist *more = NULL;

	if (asprintf(&line, "%s%s", name, value) >= 0)
		more = curl->slist_append(fields, line);
	free(line);
	return more ? more : fields;
}

enum remote_result remote_call(const struct remote *remote, const char *method, const char *path,
	const json_t *body, json_t **answer)
{
	struct curl_slist *fields = NULL;
	struct answer text = {0};
	char *url = NULL, *content = body ? json_dumps(body, JSON_COMPACT) : NULL;
	enum remote_result result = REMOTE_UNREACHABLE;
	struct curl_functions curl;

	*answer = NULL;
	if (!curl_load(&curl)) {
		free(content);
		return REMOTE_UNREACHABLE;
	}
	CURL *call = curl.easy_init();
	if (asprintf(&url, "%s%s", remote->base, path) < 0)
		url = NULL;
	if (remote->token)
		fields = add_field(&curl, fields, "Authorization: Bearer ", remote->token);
	if (content)
		fields = add_field(&curl, fields, "Content-Type: ", "application/json");
	if (call && url && (content || !body) && !set_pin(&curl, call, remote)) {
		result = REMOTE_UNREACHABLE;
	} else if (call && url && (content || !body)) {
		set_options(&curl, call, remote, method, url, fields, content, &text);
		result = perform(&curl, call, remote, &text, answer);
	} else {
		fprintf(stderr, "sluice: no memory\n");
	}
	curl.slist_free_all(fields);
	curl.easy_cleanup(call);
	free(content);
	free(text.text);
	free(url);
	return result;
}

char *remote_escape(const char *text)
{
	struct curl_functions curl;

	if (!curl_load(&curl))
		return NULL;
	char *escaped = curl.easy_escape(NULL, text, 0);
	char *copy = escaped ? strdup(escaped) : NULL;

	curl.free(escaped);
	return copy;
}
