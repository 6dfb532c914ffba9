# Turn the files of the page into C constants, as they are and compressed: PAGE_FILES of page/page.h, and the page of a
# report, which has its style and its scripts in it.
# cmake -DFILES=... -DCHART_JS=... -DREPORT=... -DGZIP=... -DOUT=... -P embed_page.cmake
cmake_minimum_required(VERSION 3.20)

set(TYPE_html "text/html; charset=utf-8")
set(TYPE_css "text/css; charset=utf-8")
set(TYPE_svg "image/svg+xml")
set(TYPE_js "text/javascript; charset=utf-8")

set(source "/* Generated. Do not edit, do not commit. */\n#include \"page/page.h\"\n#define TEXT(literal) {\"\" literal, sizeof(literal) - 1}\n")
set(rows "")

# Append "static const unsigned char NAME[]" with the bytes of FILE, and a 0 behind them.
macro(add_bytes name file)
  file(READ "${file}" hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(APPEND source "static const unsigned char ${name}[] = {${bytes}0};\n")
endmacro()

set(number 0)
foreach(file ${FILES} ${CHART_JS})
  get_filename_component(name "${file}" NAME)
  if("${file}" STREQUAL "${CHART_JS}")
    set(name chart.js)
  endif()
  string(REGEX REPLACE ".*\\." "" extension "${name}")
  execute_process(COMMAND "${GZIP}" -9 -n -c "${file}" OUTPUT_FILE "${OUT}.gz" COMMAND_ERROR_IS_FATAL ANY)
  file(SHA256 "${file}" hash)
  string(SUBSTRING "${hash}" 0 16 tag)
  add_bytes(plain_${number} "${file}")
  add_bytes(gzip_${number} "${OUT}.gz")
  file(REMOVE "${OUT}.gz")
  foreach(kind plain gzip)
    set(${kind} "{{(const char *)${kind}_${number}, sizeof(${kind}_${number}) - 1}, TEXT(\"\\\"${tag}-${kind}\\\"\")}")
  endforeach()
  string(APPEND rows "    {TEXT(\"${name}\"), TEXT(\"${TYPE_${extension}}\"),\n     ${plain},\n     ${gzip}},\n")
  math(EXPR number "${number} + 1")
endforeach()

# Modules of the page as one: names are imported from nowhere, and exported to nobody.
function(read_module out file)
  file(READ "${file}" text)
  string(REGEX REPLACE "(^|\n)import [^;]*;" "\\1" text "${text}")
  string(REGEX REPLACE "(^|\n)export " "\\1" text "${text}")
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

get_filename_component(folder "${REPORT}" DIRECTORY)
file(READ "${REPORT}" report)
file(READ "${folder}/style.css" style)
file(READ "${CHART_JS}" chart)
read_module(parts "${folder}/parts.js")
read_module(shown "${folder}/report.js")
string(REPLACE "@STYLE@" "${style}" report "${report}")
string(REPLACE "@CHART@" "${chart}" report "${report}")
string(REPLACE "@SCRIPT@" "${parts}${shown}" report "${report}")
string(FIND "${report}" "@DATA@" at)
string(SUBSTRING "${report}" 0 ${at} head)
math(EXPR at "${at} + 6")
string(SUBSTRING "${report}" ${at} -1 tail)
foreach(part head tail)
  file(WRITE "${OUT}.${part}" "${${part}}")
  add_bytes(report_${part} "${OUT}.${part}")
  file(REMOVE "${OUT}.${part}")
  string(APPEND source
    "const struct span page_report_${part} = {(const char *)report_${part}, sizeof(report_${part}) - 1};\n")
endforeach()

file(WRITE "${OUT}" "${source}"
  "const struct page_file PAGE_FILES[] = {\n${rows}};\n"
  "const size_t N_PAGE_FILES = sizeof(PAGE_FILES) / sizeof(PAGE_FILES[0]);\n")
