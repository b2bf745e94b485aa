/* Certificates and keys in PEM files, made for a test. */
#ifndef UNIT_NET_TLS_FILES_H
#define UNIT_NET_TLS_FILES_H

#include <stdbool.h>

/* Writes a self-signed certificate of these DNS names (with commas), with its key behind it, to
 * `path`, or the key alone to `key_path` if there is one. ECDSA P-256, or RSA. */
void tls_files_make(const char *path, const char *key_path, const char *names, bool is_rsa);

#endif
