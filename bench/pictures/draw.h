/* One picture: what a limit made of the scene.
 *
 * From the top: each request as a dot; units so far; and what the limit bounds, units in the last
 * period or requests in flight. */

#ifndef PICTURES_DRAW_H
#define PICTURES_DRAW_H

#include <stdio.h>

#include "limit/limit.h"
#include "pictures.h"
#include "scene.h"

/* Write the picture of @picture, whose limit is @limit, to @file. */
void draw(FILE *file, const struct picture *picture, const struct limit *limit,
          const struct request requests[SCENE_REQUESTS]);

#endif /* PICTURES_DRAW_H */
