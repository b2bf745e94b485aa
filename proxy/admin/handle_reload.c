/* Changing what runs: the configuration file. */
#include "admin/handlers.h"
#include "admin/json_text.h"
#include "admin/request.h"
#include "admin/revise.h"
#include "daemon/daemon.h"
#include "daemon/reload.h"

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
