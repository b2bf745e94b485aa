/* The commands about callers: who they are, what they have used, forgetting that. */
#ifndef CLI_OPERATE_CALLERS_H
#define CLI_OPERATE_CALLERS_H

#include "cli/call.h"

/* Each returns an exit status. `callers [KEY | --hash HASH]` */
int cli_callers(struct call *call);
/* `reset KEY | --hash HASH` */
int cli_reset(struct call *call);

/* `usage [FROM [TO]] [--csv]` */
int cli_usage(struct call *call);

/* ---- operate keys --------------------------------------------------------------------------- */

/* The commands about single callers' rights: their keys' plans, and overrides. */

/* Each returns an exit status. `keys show|revoke|delete KEY`, `keys set KEY PLAN [--hashed]` */
int cli_keys(struct call *call);
/* `override HASH plan NAME|exempt|deny DURATION`, `override HASH end` */
int cli_override(struct call *call);

/* ---- operate change ------------------------------------------------------------------------- */

/* The commands that change what runs, and the one that prints what is configured. */

/* Each returns an exit status. `limits set NAME KEY=VALUE...` */
int cli_set_limit(struct call *call, call_print *print);
/* `upstreams drain|disable|enable NAME ADDRESS`, `upstreams weight NAME ADDRESS N` */
int cli_set_server(struct call *call);
/* `log-level LEVEL` */
int cli_set_log_level(struct call *call);
/* `config` */
int cli_print_config(struct call *call);

#endif
