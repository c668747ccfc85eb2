/** A certificate for localhost that nobody signed, valid for a hundred years, and its key. For tests alone. */

export const certificate = `-----BEGIN CERTIFICATE-----
MIIBmzCCAUGgAwIBAgIUIEQ23hnxhogE92Wi6HHcFURf4DAwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMTEzMjMxMFoYDzIxMjYxMDI4
MTMyMzEwWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAARjH3Hni/gJGhIF9VTLosVmpMVxBu9lm/7BoqZMcz2OCutOz4TuloXw
ikM64amg0sT16BdJp+Ob44EkAJep0xrqo28wbTAdBgNVHQ4EFgQUTiKjPpegPlE7
jxnkz/K32iYmov8wHwYDVR0jBBgwFoAUTiKjPpegPlE7jxnkz/K32iYmov8wDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDSAAwRQIgXQ3ekWWqO4K/HhO3PB9JKMQh2oNppkOcjcUQDv1jcD0CIQDK
wCHUbSLrS6o3qZUThHc8b7R25MkqS88Pwk+nAdzwIw==
-----END CERTIFICATE-----
`

export const certificateKey = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgKIdheq9TdNr+sScD
ejbBiM5W/rOBLXc/oUnmhp1wvYKhRANCAARjH3Hni/gJGhIF9VTLosVmpMVxBu9l
m/7BoqZMcz2OCutOz4TuloXwikM64amg0sT16BdJp+Ob44EkAJep0xrq
-----END PRIVATE KEY-----
`
