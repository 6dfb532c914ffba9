# What is installed, and the Debian package of it: cpack -G DEB --config build/release/CPackConfig.cmake

include(GNUInstallDirs)

if(TARGET sluice)
  set(packaging ${PROJECT_SOURCE_DIR}/packaging)
  install(TARGETS sluice RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES ${packaging}/sluice.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${packaging}/completion/sluice.bash RENAME sluice
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${packaging}/completion/_sluice DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/config/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples
    FILES_MATCHING PATTERN "*.yaml")
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/docker/prometheus ${PROJECT_SOURCE_DIR}/docker/grafana
    DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}
    FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png")
  install(CODE "set(manual \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DOCDIR}\")
    include(${PROJECT_SOURCE_DIR}/cmake/link_manual.cmake)")
  # The package has packaging/debian/copyright instead.
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${packaging}/debian/copyright
    DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT licence)
  # Where the system looks, whatever the prefix: in the package alone.
  install(FILES ${packaging}/systemd/sluice.service ${packaging}/systemd/sluice.socket
    DESTINATION /lib/systemd/system COMPONENT system EXCLUDE_FROM_ALL)
  install(FILES ${packaging}/policy.yaml DESTINATION /etc/sluice COMPONENT system EXCLUDE_FROM_ALL)
  install(FILES ${packaging}/debian/copyright ${packaging}/debian/changelog
    DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT system EXCLUDE_FROM_ALL)
  install(FILES ${packaging}/debian/lintian-overrides RENAME sluice
    DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides COMPONENT system EXCLUDE_FROM_ALL)
  # It has secrets; systemd reads it as root.
  install(FILES ${packaging}/default RENAME sluice DESTINATION /etc/default
    PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ COMPONENT system EXCLUDE_FROM_ALL)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME sluice)
set(CPACK_PACKAGE_VENDOR sluice)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_CONTACT "The sluice authors <sluice@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "HTTP reverse proxy that rate-limits")
set(CPACK_PACKAGE_DESCRIPTION
  "Stands in front of an API, matches requests against routes in a YAML policy,
runs the routes' limits against Redis or a store of its own, and answers 429
with the time to come back, or forwards.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/compress_pages.cmake)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_COMPONENTS_ALL Unspecified system)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION web)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS tzdata)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS redis-server)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${PROJECT_SOURCE_DIR}/packaging/debian/conffiles
  ${PROJECT_SOURCE_DIR}/packaging/debian/postinst
  ${PROJECT_SOURCE_DIR}/packaging/debian/prerm
  ${PROJECT_SOURCE_DIR}/packaging/debian/postrm)
include(CPack)
