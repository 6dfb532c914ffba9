# The limited handlers in Rack, routed as Sinatra and Hanami do: HANDLERS=... puma rack_app.ru
# frozen_string_literal: true

require 'json'
require 'rack'

HANDLERS = JSON.parse(File.read(ENV.fetch('HANDLERS'), encoding: 'utf-8'))

def find(method, path)
  method = 'GET' if method == 'HEAD'
  one = HANDLERS.find { |known| known['method'] == method && known['path'] == path }
  return [one['name'], nil] if one
  return nil unless method == 'GET'

  case path
  when %r{\A/v1/report(\.\w+)?\z} then ['report', nil]
  when %r{\A/u/([^/]+)\z} then ['user', Regexp.last_match(1)]
  when %r{\A/f/(.+)\z} then ['files', Regexp.last_match(1)]
  end
end

def text(value)
  value.is_a?(String) ? value.dup.force_encoding('utf-8').scrub : nil
end

def answer(request)
  path = text(Rack::Utils.unescape_path(request.path_info))
  found = find(request.request_method, path)
  return [404, {}, []] unless found

  bearer = /\ABearer\s+(\S+)\s*\z/i.match(request.get_header('HTTP_AUTHORIZATION') || '')
  said = JSON.generate({
    handler: found[0], method: request.request_method, path: path, name: found[1],
    header: text(request.get_header('HTTP_X_API_KEY')), plan: text(request.get_header('HTTP_X_PLAN')),
    cookie: text(request.cookies['sid']), query: text(request.GET['k']),
    token: bearer && text(bearer[1])
  }, ascii_only: true)
  [200, { 'content-type' => 'application/json', 'x-read' => said }, [said]]
end

run(lambda do |env|
  answer(Rack::Request.new(env))
rescue Rack::QueryParser::ParameterTypeError, Rack::QueryParser::InvalidParameterError, ArgumentError
  [400, {}, []]
end)
