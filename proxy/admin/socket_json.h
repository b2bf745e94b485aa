/* A WebSocket as the operator's API shows it. */
#ifndef ADMIN_SOCKET_JSON_H
#define ADMIN_SOCKET_JSON_H

#include <jansson.h>
#include <stdint.h>

struct socket_view;

/* `process`: what the ids of this process begin with. NULL without memory. */
json_t *socket_json(const struct socket_view *view, uint64_t process);

#endif
