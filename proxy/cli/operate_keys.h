/* The commands about single callers' rights: their keys' plans, and overrides. */
#ifndef CLI_OPERATE_KEYS_H
#define CLI_OPERATE_KEYS_H

#include "cli/call.h"

/* Each returns an exit status. `keys show|revoke|delete KEY`, `keys set KEY PLAN [--hashed]` */
int cli_keys(struct call *call);
/* `override HASH plan NAME|exempt|deny DURATION`, `override HASH end` */
int cli_override(struct call *call);

#endif
