# How everything of ours is compiled. sluice_warnings is for our code only, sluice_build for the
# third-party source that we compile too.

add_library(sluice_build INTERFACE)
target_compile_definitions(sluice_build INTERFACE _GNU_SOURCE)
target_compile_options(sluice_build INTERFACE -fno-strict-aliasing -fno-common)

if(SLUICE_SANITIZE)
  target_compile_options(sluice_build INTERFACE
    -fsanitize=${SLUICE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(sluice_build INTERFACE -fsanitize=${SLUICE_SANITIZE})
endif()
if(SLUICE_FUZZ)
  target_compile_options(sluice_build INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(SLUICE_COVERAGE)
  target_compile_options(sluice_build INTERFACE --coverage)
  target_link_options(sluice_build INTERFACE --coverage)
endif()
if(SLUICE_HARDEN)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  target_compile_options(sluice_build INTERFACE
    -fstack-protector-strong -fstack-clash-protection -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
    -fno-plt) # with -z now, library functions are called without a stub
  target_link_options(sluice_build INTERFACE -pie -Wl,-z,relro,-z,now)
endif()
if(SLUICE_PROFILE STREQUAL "record")
  set(profile_options -fprofile-generate=${CMAKE_BINARY_DIR}/profile -fprofile-update=prefer-atomic)
elseif(SLUICE_PROFILE STREQUAL "use")
  # What the load did not reach is optimised as without a profile.
  set(profile_options -fprofile-use=${CMAKE_BINARY_DIR}/profile -fprofile-partial-training -Wno-missing-profile)
elseif(SLUICE_PROFILE)
  message(FATAL_ERROR "SLUICE_PROFILE is ${SLUICE_PROFILE}: give record or use, or leave it out")
endif()
if(SLUICE_PROFILE)
  if(NOT CMAKE_C_COMPILER_ID STREQUAL "GNU")
    message(FATAL_ERROR "SLUICE_PROFILE needs gcc, and the compiler is ${CMAKE_C_COMPILER_ID}")
  endif()
  target_compile_options(sluice_build INTERFACE ${profile_options})
  target_link_options(sluice_build INTERFACE ${profile_options})
endif()

add_library(sluice_warnings INTERFACE)
target_link_libraries(sluice_warnings INTERFACE sluice_build)
target_compile_options(sluice_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
  -Wswitch-enum -Wvla -Wformat=2 -Wpointer-arith -Wcast-qual
  -Wno-format-zero-length)
if(SLUICE_WERROR)
  target_compile_options(sluice_warnings INTERFACE -Werror)
endif()
