/* The configuration in effect, and the level of the log. */
#include <string.h>

#include "admin/handlers.h"
#include "admin/json_text.h"
#include "admin/request.h"
#include "admin/revise.h"
#include "conf/reference.h"
#include "daemon/daemon.h"
#include "daemon/reload.h"

struct listing {
	const struct conf *conf;
	json_t *sections;
	json_t *section;         /* the last one */
	const char *kind, *name; /* its */
};

static json_t *begin_section(struct listing *listing, const struct reference_setting *setting)
{
	json_t *settings = json_object();

	listing->kind = setting->kind;
	listing->name = setting->name;
	listing->section = json_pack("{s:s, s:s, s:b, s:o}", "section", setting->kind, "name",
		setting->name, "changed",
		conf_is_revised(listing->conf, setting->kind, setting->name), "settings", settings);
	json_array_append_new(listing->sections, listing->section);
	return settings;
}

/* The lines of a repeatable key are an array. */
static void add_setting(void *ctx, const struct reference_setting *setting)
{
	struct listing *listing = ctx;
	bool is_same = listing->kind == setting->kind && listing->name == setting->name;
	json_t *settings = is_same ? json_object_get(listing->section, "settings")
				   : begin_section(listing, setting);
	json_t *text = admin_json_text(setting->text);
	json_t *list = json_object_get(settings, setting->key);

	if (!setting->repeatable) {
		json_object_set_new(settings, setting->key, text);
		return;
	}
	if (!list) {
		list = json_array();
		json_object_set_new(settings, setting->key, list);
	}
	json_array_append_new(list, text);
}

void admin_get_config(struct admin_request *request)
{
	const struct conf *conf = request->daemon->site->conf;
	struct listing listing = {.conf = conf, .sections = json_array()};

	reference_each(conf, add_setting, &listing);
	admin_respond_json(request, 200,
		json_pack("{s:o, s:o}", "configuration", admin_json_text(conf->path), "sections",
			listing.sections));
}

void admin_put_log_level(struct admin_request *request)
{
	json_t *body = admin_object(request);
	const char *level = json_string_value(json_object_get(body, "level"));

	if (!body)
		return;
	if (!level || json_object_size(body) != 1) {
		admin_respond_problem(
			request, 400, "Expected {\"level\": \"error\"}, or warn, info or debug.");
	} else {
		const struct conf_revision revision = {"sluice", "", "log_level", level};
		if (admin_revise(request, &revision, 1))
			admin_respond_json(request, 200,
				json_pack("{s:s, s:b, s:s}", "level", level, "persists", false,
					"detail", ADMIN_UNTIL_RELOAD));
	}
	json_decref(body);
}

/* ---- handle reload -------------------------------------------------------------------------- */

/* Changing what runs: the configuration file. */

void admin_post_reload(struct admin_request *request)
{
	struct daemon *daemon = request->daemon;
	struct conf_errors errors = {0};

	if (daemon->node.stopping) {
		admin_respond_problem(request, 409, "sluice is stopping.");
		return;
	}
	switch (daemon_reload(daemon, &errors)) {
	case RELOAD_DONE:
		admin_respond_json(request, 200,
			json_pack("{s:o}", "configuration",
				admin_json_text(daemon->site->conf->path)));
		break;
	case RELOAD_WAITING: /* RFC 9110 section 15.3.3 */
		admin_respond_json(request, 202,
			json_pack("{s:o, s:s}", "configuration",
				admin_json_text(daemon->site->conf->path), "waiting",
				daemon->reload_waits ? "the end of the upgrade"
						     : "addresses of new names"));
		break;
	case RELOAD_FAILED:
		admin_respond_errors(request, 422,
			"The configuration can't take effect, for the reasons in the error log; "
			"the running one remains in force.",
			&errors);
		break;
	}
	conf_errors_free(&errors);
}
