/* GET /ui/ and its files: the page that shows what the API says. They hold nothing secret, so they
 * need no token; what they show does. GET /v1/access: what the page may do. */

#include <jansson.h>

#include "admin/internal.h"
#include "admin/request.h"
#include "admin/resources.h"
#include "page/page.h"

void page_handle(struct admin_request *request)
{
    const struct page_file *file = page_find(request->captures[0]);
    if (file == NULL) {
        answer_problem(request, 404, "the page has no such file");
    } else {
        answer_page(request, file);
    }
}

void access_handle(struct admin_request *request)
{
    answer_json(request, 200,
                json_pack("{ss, sb}", "by", request->by, "may_change", (int)request->may_change));
}
