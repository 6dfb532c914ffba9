<?php
// The limited handlers in PHP, as a front controller: HANDLERS=... php -S 127.0.0.1:PORT -t php php/index.php
declare(strict_types=1);

$method = $_SERVER['REQUEST_METHOD'];
$path = rawurldecode((string) parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH));

function find(string $method, string $path): ?array
{
    foreach (json_decode(file_get_contents(getenv('HANDLERS')), true) as $one) {
        if ($one['path'] === $path
            && ($one['method'] === $method || ($one['method'] === 'GET' && $method === 'HEAD'))) {
            return [$one['name'], null];
        }
    }
    if ($method !== 'GET' && $method !== 'HEAD') {
        return null;
    }
    if (preg_match('#^/v1/report(\.\w+)?$#', $path)) {
        return ['report', null];
    }
    if (preg_match('#^/u/([^/]+)$#', $path, $found)) {
        return ['user', $found[1]];
    }
    if (preg_match('#^/f/(.+)$#', $path, $found)) {
        return ['files', $found[1]];
    }
    return null;
}

function text(mixed $value): ?string
{
    return is_string($value) ? $value : null;
}

$found = find($method, $path);
if ($found === null) {
    http_response_code(404);
    return;
}
$is_bearer = preg_match('/^Bearer\s+(\S+)\s*$/i', $_SERVER['HTTP_AUTHORIZATION'] ?? '', $bearer);
$said = json_encode([
    'handler' => $found[0], 'method' => $method, 'path' => $path, 'name' => $found[1],
    'header' => text($_SERVER['HTTP_X_API_KEY'] ?? null), 'plan' => text($_SERVER['HTTP_X_PLAN'] ?? null),
    'cookie' => text($_COOKIE['sid'] ?? null), 'query' => text($_GET['k'] ?? null),
    'token' => $is_bearer ? $bearer[1] : null,
], JSON_INVALID_UTF8_SUBSTITUTE | JSON_UNESCAPED_SLASHES);
header('Content-Type: application/json');
header('X-Read: ' . $said);
echo $said;
