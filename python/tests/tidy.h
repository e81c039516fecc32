/* For test_opaque.py: bytes in order. */
static int tidy_order(const void *a, const void *b)
{
    return *(const unsigned char *)a - *(const unsigned char *)b;
}
