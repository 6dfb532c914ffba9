# Every third-party library, each as one imported target. docs/building.md and
# scripts/install-packages name the same Debian packages.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(libsodium REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules(libyaml REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(jansson REQUIRED IMPORTED_TARGET jansson>=2.11)
pkg_check_modules(libevent REQUIRED IMPORTED_TARGET libevent_core>=2.1 libevent_extra>=2.1)
pkg_check_modules(hiredis REQUIRED IMPORTED_TARGET hiredis)
pkg_check_modules(libcurl REQUIRED IMPORTED_TARGET libcurl>=7.85)
pkg_check_modules(libnghttp2 REQUIRED IMPORTED_TARGET libnghttp2>=1.52)
pkg_check_modules(libmaxminddb REQUIRED IMPORTED_TARGET libmaxminddb>=1.5)
pkg_check_modules(openssl REQUIRED IMPORTED_TARGET openssl>=3.0)
if(SLUICE_SYSTEMD)
  pkg_check_modules(libsystemd REQUIRED IMPORTED_TARGET libsystemd)
endif()
if(SLUICE_TESTS)
  pkg_check_modules(check REQUIRED IMPORTED_TARGET check)

  # llhttp, with which a test compares heads: a library of the system where there is one, else the generated C of
  # Debian's node-llhttp, compiled in strict mode.
  pkg_check_modules(libllhttp QUIET IMPORTED_TARGET libllhttp)
  if(libllhttp_FOUND)
    add_library(sluice_llhttp INTERFACE)
    target_link_libraries(sluice_llhttp INTERFACE PkgConfig::libllhttp)
  else()
    find_path(LLHTTP_INCLUDE_DIR llhttp.h PATHS /usr/share/include /usr/local/share/include
      PATH_SUFFIXES llhttp REQUIRED)
    find_path(LLHTTP_SOURCE_DIR llhttp.c PATHS /usr/share /usr/local/share PATH_SUFFIXES llhttp REQUIRED)
    add_library(sluice_llhttp STATIC
      ${LLHTTP_SOURCE_DIR}/api.c ${LLHTTP_SOURCE_DIR}/http.c ${LLHTTP_SOURCE_DIR}/llhttp.c)
    target_include_directories(sluice_llhttp SYSTEM PUBLIC ${LLHTTP_INCLUDE_DIR})
    target_compile_definitions(sluice_llhttp PRIVATE LLHTTP_STRICT_MODE=1)
    target_link_libraries(sluice_llhttp PRIVATE sluice_build)
  endif()
endif()

find_program(GZIP gzip REQUIRED)

# Chart.js, which the page of the admin API and those of `sluice replay` carry: the minified script of Debian's libjs-chart.js, or where
# that has another name (version 4, other systems) the one that browsers load as it is.
find_file(CHART_JS NAMES chart.min.js Chart.min.js chart.umd.min.js chart.umd.js chart.js Chart.js REQUIRED
  PATHS /usr/share/javascript /usr/share/nodejs/chart.js /usr/local/share/javascript /usr/share/npm/node_modules/chart.js
  PATH_SUFFIXES chart.js dist NO_DEFAULT_PATH)
