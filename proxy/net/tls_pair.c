#include "net/tls_pair.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The first error is nearest to the cause. */
const char *tls_reason(void)
{
	unsigned long error = ERR_peek_error();
	const char *text = NULL;

	if (ERR_GET_LIB(error) == ERR_LIB_SYS)
		text = strerror(ERR_GET_REASON(error));
	else if (error != 0)
		text = ERR_reason_error_string(error);
	return text ? text : "no memory";
}

bool tls_report(char *why, size_t size, const char *path, const char *what)
{
	snprintf(why, size, "%s: %s: %s", path, what, tls_reason());
	return false;
}

bool tls_check_file(const char *path, char *why, size_t size)
{
	struct stat found;

	if (!path || stat(path, &found) != 0 || S_ISREG(found.st_mode))
		return true;
	snprintf(why, size, "%s: it is no regular file", path);
	return false;
}

FILE *tls_open(const char *path)
{
	struct stat found;
	bool is_regular = stat(path, &found) == 0 && S_ISREG(found.st_mode);

	return is_regular ? fopen(path, "re") : NULL;
}

/* Never asks at a terminal. */
static int give_password(char *out, int size, int writes, void *arg)
{
	const char *password = arg;
	size_t len = password ? strlen(password) : 0;

	(void)writes;
	if (!password || len > (size_t)size)
		return -1;
	memcpy(out, password, len);
	return (int)len;
}

/* OpenSSL compares a key with the certificate as it takes it. */
static bool is_of_another(void)
{
	unsigned long error = ERR_peek_last_error();

	return ERR_GET_LIB(error) == ERR_LIB_X509 &&
	       ERR_GET_REASON(error) == X509_R_KEY_VALUES_MISMATCH;
}

bool tls_pair_use(SSL_CTX *context, const struct tls_pair *pair, char *why, size_t size)
{
	if (!tls_check_file(pair->certificate, why, size) || !tls_check_file(pair->key, why, size))
		return false;
	ERR_clear_error();
	SSL_CTX_set_default_passwd_cb(context, give_password);
	SSL_CTX_set_default_passwd_cb_userdata(context, (void *)(uintptr_t)pair->password);
	if (SSL_CTX_use_certificate_chain_file(context, pair->certificate) != 1)
		return tls_report(why, size, pair->certificate, "can't read the certificate");
	bool has_key = SSL_CTX_use_PrivateKey_file(context, pair->key, SSL_FILETYPE_PEM) == 1;
	SSL_CTX_set_default_passwd_cb_userdata(context, NULL);
	if (!has_key)
		return tls_report(why, size, pair->key,
			is_of_another() ? "the key is not the certificate's" : "can't use the key");
	return true;
}

const char *tls_key_digest(const char *path, unsigned char digest[static DIGEST_BYTES])
{
	FILE *file = fopen(path, "re");
	unsigned char *der = NULL;

	if (!file)
		return strerror(errno);
	X509 *certificate = PEM_read_X509(file, NULL, NULL, NULL);
	int len = certificate ? i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &der) : 0;
	if (len > 0)
		digest_make((struct slice){(const char *)der, (size_t)len}, digest);
	OPENSSL_free(der);
	X509_free(certificate);
	fclose(file);
	return len > 0 ? NULL : "it has no certificate";
}
