/* The commands that change what runs, and the one that prints what is configured. */
#ifndef CLI_OPERATE_CHANGE_H
#define CLI_OPERATE_CHANGE_H

#include "cli/call.h"

/* Each returns an exit status. `limits set NAME KEY=VALUE...` */
int cli_set_limit(struct call *call, call_print *print);
/* `upstreams drain|disable|enable NAME ADDRESS`, `upstreams weight NAME ADDRESS N` */
int cli_set_server(struct call *call);
/* `log-level LEVEL` */
int cli_set_log_level(struct call *call);
/* `config` */
int cli_print_config(struct call *call);

#endif
