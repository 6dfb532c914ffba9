# sluice_add_module(NAME SOURCES ... DEPENDS ... PRIVATE_DEPENDS ...)
#
# One static library a module: sluice_NAME from src/NAME. Its face is include/NAME; its private headers
# are seen by itself and by its own tests. DEPENDS are the modules and libraries whose headers its face
# needs, PRIVATE_DEPENDS what only its sources use.
function(sluice_add_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(sluice_${name} STATIC ${ARG_SOURCES})
  target_include_directories(sluice_${name}
    PUBLIC ${PROJECT_SOURCE_DIR}/include
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(sluice_${name} PUBLIC ${ARG_DEPENDS}
    PRIVATE ${ARG_PRIVATE_DEPENDS} sluice_warnings)
endfunction()
