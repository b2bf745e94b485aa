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

#endif
