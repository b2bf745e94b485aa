/* See protect_ini.h. */
#include "cli/protect_ini.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define COUNT(items) (sizeof(items) / sizeof((items)[0]))

static const struct row {
	const char *section, *key;
	const char *option;
} rows[] = {
	[PROTECT_ADMIN] = {"admin", "bind", "--admin"},
	[PROTECT_LISTEN] = {"listener public", "bind", "--listen"},
	[PROTECT_SERVER] = {"upstream protected", "server", "SERVER"},
	[PROTECT_KEY] = {"limit " PROTECT_LIMIT, "key", "--key"},
	[PROTECT_RATE] = {"limit " PROTECT_LIMIT, "rate", "--rate"},
};
_Static_assert(COUNT(rows) == PROTECT_SETTINGS, "a row for each setting");

/* ---- values ---------------------------------------------------------------------------------- */

static char *format(const char *front, const char *text, size_t len, const char *end)
{
	char *made = NULL;

	return asprintf(&made, "%s%.*s%s", front, (int)len, text, end) < 0 ? NULL : made;
}

/* `:8080` */
static char *with_host(const char *host, const char *text)
{
	return format(text[0] == ':' ? host : "", text, strlen(text), "");
}

/* The host, and the port if there is one, of `http://HOST[:PORT][/]`; all other texts are for the
 * ini's reader to judge. */
static char *server_of(const char *text)
{
	static const char scheme[] = "http://";
	const char *host = text + strlen(scheme);

	if (strncasecmp(text, scheme, strlen(scheme)) != 0)
		return with_host("127.0.0.1", text);
	size_t len = strcspn(host, "/");
	if (len == 0 || strlen(host + len) > 1)
		return strdup(text);
	const char *bracket = memchr(host, ']', len);
	bool has_port = strchr(bracket ? bracket : host, ':') != NULL;

	return format("", host, len, has_port ? "" : ":80");
}

/* The digits behind the last colon, "" where there are none. */
static const char *port_of(const char *address)
{
	const char *colon = strrchr(address, ':');

	return colon && colon[1] && colon[1 + strspn(colon + 1, "0123456789")] == '\0' ? colon + 1
										       : "";
}

static char *admin_of(const char *listen, struct protect_home home)
{
	const char *port = port_of(listen), *dash = *port ? "-" : "";
	char *made = NULL;
	int len;

	if (home.runtime && home.runtime[0] == '/')
		len = asprintf(&made, "unix:%s/sluice%s%s.sock", home.runtime, dash, port);
	else if (home.user == 0)
		len = asprintf(&made, "unix:/run/sluice%s%s.sock", dash, port);
	else
		len = asprintf(&made, "unix:/tmp/sluice-%u/sluice%s%s.sock", home.user, dash, port);
	return len < 0 ? NULL : made;
}

static char *value_of(
	const struct protect *protect, enum protect_setting setting, struct protect_home home)
{
	static const char *const defaults[] = {[PROTECT_LISTEN] = "127.0.0.1:8080",
		[PROTECT_KEY] = "ip",
		[PROTECT_RATE] = "100 per 10s"};
	const char *given = protect->given[setting];

	if (setting == PROTECT_ADMIN)
		return given ? with_host("127.0.0.1", given)
			     : admin_of(protect->values[PROTECT_LISTEN], home);
	if (!given)
		return strdup(defaults[setting]);
	if (setting == PROTECT_SERVER)
		return server_of(given);
	return setting == PROTECT_LISTEN ? with_host("0.0.0.0", given) : strdup(given);
}

/* A line break would begin another setting. */
static bool is_one_line(const char *text)
{
	while (*text && !iscntrl((unsigned char)*text))
		text++;
	return *text == '\0';
}

static bool is_blank(const char *text)
{
	return text[strspn(text, " ")] == '\0';
}

bool protect_settle(struct protect *protect, struct protect_home home)
{
	for (enum protect_setting setting = 0; setting < PROTECT_SETTINGS; setting++) {
		const char *given = protect->given[setting];
		if (!given || (is_one_line(given) && !is_blank(given)))
			continue;
		fprintf(stderr, "sluice protect: %s: %s\n", rows[setting].option,
			is_blank(given) ? "the value is empty; leave it out for the default"
					: "a control character; expected one line of text");
		return false;
	}
	/* The admin socket is named by the listener's port. */
	for (enum protect_setting left = PROTECT_SETTINGS; left > 0; left--) {
		enum protect_setting setting = left - 1;
		protect->values[setting] = value_of(protect, setting, home);
		if (!protect->values[setting]) {
			fputs("sluice protect: no memory\n", stderr);
			return false;
		}
	}
	return true;
}

void protect_clear(struct protect *protect)
{
	for (enum protect_setting setting = 0; setting < PROTECT_SETTINGS; setting++) {
		free(protect->values[setting]);
		protect->values[setting] = NULL;
	}
}

/* ---- text ------------------------------------------------------------------------------------ */

/* A word for a shell. */
static void write_word(FILE *out, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "-_./:@%+=,[]";

	if (*word && word[strspn(word, plain)] == '\0') {
		fputs(word, out);
		return;
	}
	fputc('\'', out);
	for (; *word; word++)
		fputs(*word == '\'' ? "'\\''" : (char[]){*word, '\0'}, out);
	fputc('\'', out);
}

void protect_write_command(FILE *out, const char *program, const struct protect *protect)
{
	static const enum protect_setting order[] = {
		PROTECT_RATE, PROTECT_KEY, PROTECT_LISTEN, PROTECT_ADMIN};

	write_word(out, program);
	fputs(" protect ", out);
	write_word(out, protect->given[PROTECT_SERVER]);
	for (size_t i = 0; i < COUNT(order); i++) {
		if (!protect->given[order[i]])
			continue;
		fprintf(out, " %s ", rows[order[i]].option);
		write_word(out, protect->given[order[i]]);
	}
}

void protect_write_ini(FILE *out, const struct protect *protect)
{
	const char *section = "";

	fputs("# ", out);
	protect_write_command(out, "sluice", protect);
	fputc('\n', out);
	for (enum protect_setting setting = 0; setting < PROTECT_SETTINGS; setting++) {
		const struct row *row = &rows[setting];
		if (strcmp(section, row->section) != 0)
			fprintf(out, "\n[%s]\n", row->section);
		fprintf(out, "%s = %s\n", row->key, protect->values[setting]);
		section = row->section;
	}
	fputs("\n[route all]\nupstream = protected\nlimits = " PROTECT_LIMIT "\n", out);
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* `NAME:LINE: [section] key: what`: the setting that it is about, and `what`; PROTECT_SETTINGS and
 * the text behind the line where it is about none. */
static enum protect_setting setting_of(const char *error, const char **what)
{
	const char *begin = strstr(error, ": [");
	enum protect_setting setting;

	*what = error;
	if (!begin)
		return PROTECT_SETTINGS;
	*what = begin += strlen(": ");
	for (setting = 0; setting < PROTECT_SETTINGS; setting++) {
		char front[64];
		int len = snprintf(front, sizeof(front), "[%s] %s: ", rows[setting].section,
			rows[setting].key);
		if (strncmp(begin, front, (size_t)len) == 0) {
			*what = begin + len;
			break;
		}
	}
	return setting;
}

void protect_print_errors(FILE *out, const struct conf_errors *errors)
{
	/* There is no option for a token. */
	static const char token[] = "; expected a token";

	for (size_t i = 0; i < errors->count; i++) {
		const char *what = NULL;
		enum protect_setting setting = setting_of(errors->items[i].text, &what);
		const char *wants_token = setting == PROTECT_ADMIN ? strstr(what, token) : NULL;
		if (wants_token)
			fprintf(out,
				"sluice protect: --admin: %.*s; expected a port of 127.0.0.1, or "
				"unix:/PATH\n",
				(int)(wants_token - what), what);
		else if (setting < PROTECT_SETTINGS)
			fprintf(out, "sluice protect: %s: %s\n", rows[setting].option, what);
		else
			fprintf(out, "sluice protect: %s\n", what);
	}
	if (errors->incomplete)
		fputs("sluice protect: no memory\n", out);
}
